#!/bin/bash
# One command for a bare machine with one GPU (made for an H200) that settles what bench/results calls not measured on
# one: policies of transformers and vLLM, LoRA, sleep and wake, new weights with the probe, co-located training, the
# trainer's step against TRL.
#
#   bench/gpu.sh [--dry] [--model ID|DIR] [--out DIR] [--chunk SECONDS] [--only STAGE,...]
#
# Stages are kept in DIR (gpu-results) as they end; the same command goes on with the next. It ends with exit code 75
# where SECONDS (540) are over and stages are left: call it again. 0: all done, DIR/gpu.md written; 1: a stage failed
# (the others are done; its log says why, and the same command tries it again).
# --dry runs every stage here, on a CPU with a tiny model and the tests' server in vLLM's place.
set -uo pipefail
cd "$(dirname "$0")/.."

dry=0 model=Qwen/Qwen2.5-Coder-0.5B-Instruct out=gpu-results chunk=540 only=""
while [ $# -gt 0 ]; do
    case $1 in
        --dry) dry=1; shift ;;
        --model | --out | --chunk | --only)
            [ $# -ge 2 ] || { echo "gpu.sh: $1 needs a value" >&2; exit 2; }
            declare "${1#--}=$2"; shift 2 ;;
        *) echo "gpu.sh: no option $1 (--dry, --model, --out, --chunk, --only)" >&2; exit 2 ;;
    esac
done
stages="doctor policies lora sleep served trainer attention trl colocated operator"
for stage in ${only//,/ }; do
    case " $stages " in *" $stage "*) ;; *) echo "gpu.sh: no stage $stage; there is $stages" >&2; exit 2 ;; esac
done

mkdir -p "$out"
python=${PYTHON:-python}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
began=$SECONDS failed=0 left=0
for stage in $stages; do
    [ -z "$only" ] || case ",$only," in *",$stage,"*) ;; *) continue ;; esac
    [ ! -e "$out/$stage.json" ] || continue
    room=$((chunk - (SECONDS - began)))
    if [ "$room" -lt $((chunk / 4)) ]; then left=1; break; fi
    echo "== $stage"
    arguments=(--out "$out" --model "$model")
    [ $dry = 0 ] || arguments+=(--dry)
    # what a stage begins and does not end is taken up by its next try (co-located training resumes)
    timeout --signal=INT --kill-after=30 "$room" "$python" -m bench.gpu_stages "$stage" "${arguments[@]}" > "$out/$stage.log" 2>&1
    code=$?
    if [ $code = 124 ] || [ $code = 137 ] || [ $code = 130 ]; then left=1; echo "   to be continued"; break; fi
    if [ $code != 0 ]; then failed=1; echo "   failed: $(tail -n 1 "$out/$stage.log")"; fi
done
"$python" -m bench.gpu_stages report --out "$out" || failed=1
[ $left = 0 ] || exit 75
exit $failed
