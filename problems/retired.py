"""What users could type once and cannot any more: one line each, which names what replaces it.

A row says what to do instead, as the end of "X was removed; ...".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from problems.contract import BadAddress

COMMANDS: dict[str, str] = {
    "pretrain": "python -m vpo.languages.pretrain DIR --language maze",
    "problems pick": "name the problems by a filter: evo run 'list:EVALUATION.json?solve@30=0'",
    "problems fuzz": "add tests to the rows of the file, as further lines of `test_list`",
    "fit list": "evo fit show without a name lists the fits",
    "runs note": "give the run a telling name: evo runs rename RUN NAME",
    "runs prune": "evo runs --json lists each run's groups and status; evo runs delete RUN... removes runs",
}
"""Commands of `evo`, as `pretrain` or `problems fuzz`."""

FLAGS: dict[str, str] = {
    "demo --train": "evo train vpo maze:train --steps 40 -o DIR trains a policy; evo compare takes it as an arm",
    "demo --steps": "it was of --train: evo train has --steps",
    "fit --policy": "no policy was shown to improve a fit; evo run formula:FILE.csv?target=NAME takes one",
    "fit --loss": "give outliers a small weight, with --weights COLUMN",
    "fit --delimiter": "name the delimiter in a first line of the file, as in sep=;",
    "fit show --svg": "--plot FILE.svg draws the front and the fit",
    "--redo": "delete what the stage made, as in rm -r DIR/policies/STAGE or evo runs delete RUN",
    "pipeline --plain": "stages always print lines; evo watch NAME shows a search on a screen",
    "export --plain": "leave it out: an export prints one line at its end",
    **{f"{name} --details": "evo show NAME --details prints the table" for name in ("compare", "resume")},
    "--keep-going": "run the stages that are left with --only",
    "--png": "the page has its charts; `evo report -o FILE`",
    "--serve": "use `evo ui`, which shows runs in a browser",
    "--host": "`evo ui` listens on this machine only; from another one: ssh -L 8080:127.0.0.1:8080 HOST",
    "--ray": "a cluster takes whole searches of a comparison: evo compare and evo resume have --ray",
    **{
        f"check --{name}": "evo evaluate PROBLEM --policy POLICY samples a policy and measures its answers"
        for name in ("policy", "answers", "temperature", "max-new-tokens")
    },
    "--best-of-n": "--baseline best-of-n=ARM",
    "resume --rescore": "evo run ... --start RUN begins a new run from the answers of RUN, scored by the new scorer",
    "--reflect": "let the scorer's feedback call a model",
    "--openevolve": "`evo best RUN -o DIR` writes the programs, which OpenEvolve starts from",
}
"""Flags of any command, as `--reflect`, or of one, as `fit --policy`."""

KEYS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "shards": ("a run is one task of a cluster; ?scorers=N spreads its scoring", (None,)),
    "dropped_policies": ("start a new run with --start FILE, as from evo best", ([], None)),
    "best_of_n": ("baselines: [best-of-n=ARM]", (None,)),
    "reflect": ("let the scorer's feedback call a model", ()),
    "prompt.horizon": ("leave it out: no gain was shown", (False, None)),
    "feedback": ("let the scorer's feedback call a model", (None, {}, {"policy": None, "max_new_tokens": None})),
    "population.puct_exploration": ("the strategy puct is gone; leave it out", (1.0,)),
    "population.puct_temperature": ("the strategy puct is gone; leave it out", (0.1,)),
}
"""Dotted keys of settings: what replaces one, and the values that meant "not used".

A stored run with one of these values is read without the key. One with another value used what is gone: refused."""

OPTIONS: dict[str, str] = {
    "rpm": "lower ?concurrency=; the client waits as long as Retry-After says",
    "tpm": "lower ?concurrency=; the client waits as long as Retry-After says",
    "thinking": 'use reasoning_effort, or the server\'s own field: ?body={"enable_thinking":true}',
    "weights": "use vllm:ID@URL?adapters=DIR",
    "cache_gib": 'use ?serve={"kv-cache-memory-bytes":...}',
    "compile": 'use ?serve={"enforce-eager":true}',
    "prefix_cache": 'use ?serve={"no-enable-prefix-caching":true}',
    "transfer": "leave it out: new weights start the server again, or use ?lora_rank= for adapters",
    "horizon": "leave it out: no gain was shown",
}
"""Options of addresses, as in ?horizon=true."""

STAGE_KINDS: dict[str, str] = {
    "pretrain": "train from embedded:base, or run python -m vpo.languages.pretrain before the pipeline",
    "pick": 'write the filter where the problems stand: problems: ["${EVALUATION}?solve@30=0"]',
}
"""Kinds of a pipeline's stages."""

NAMES: dict[str, str] = {
    "RunResult.plot": "report(FILE.html) draws the curves; frame() has the values",
    "ComparisonResult.plot": "report(FILE.html) draws the curves; curves() has the values",
    "phase": "use mixing: bandit or turns",
    "puct": "strategies are auto, openevolve, weighted, pareto, lexicase, hill and scs",
    "auto_weighted": "use auto, or weighted",
    "maths:hexagon_packing_11": "maths:circle_packing_26 is a packing too",
    "maths:hexagon_packing_12": "maths:circle_packing_32 is a packing too",
    "maths:sums_differences": "maths:erdos_min_overlap is of additive combinatorics too",
    "maths:uncertainty": "maths:autocorrelation_1 is a bound from one function too",
    **{
        f"FormulaRegressor({name}=)": instead
        for names, instead in (
            ("maxdepth constraints nested_constraints", "limit maxsize, binary_operators and unary_operators"),
            ("extra_functions", "add a column with the function's values to X"),
            ("model_selection", "predict, sympy, latex and python take the index of another row of front_"),
            ("dimensional_constraint_penalty", "a formula that breaks the units is left out"),
            ("early_stop_condition", "lower max_evals or timeout_in_seconds"),
            ("elementwise_loss", "give outliers a small sample_weight"),
            ("warm_start", "give guesses=[row.formula for row in model.front_]"),
        )
        for name in names.split()
    },
    "scripted:operon": "use scripted:gp, or scripted:marks",
    "musique-facts": "name a chat model, which any text task takes",
    "embedded:musique": "name a chat model, which any text task takes",
    **{
        f"{task}:synthetic{level}{split}": f"use {task}:synthetic, {task}:FILE or {task}:hf-train"
        for task, levels in (("musique", "easy medium"), ("eureqa", "easy hard closed"), ("toolrl", "easy medium"))
        for level in ("", *(f"-{name}" for name in levels.split()))
        for split in ("", "-train")
        if level or split
    },
    **{
        "embedded:edit" + f"-{name}".removesuffix("-edit"): "embedded:edit-solve is the operator that stays"
        for name in ["edit", "grpo", "improve", "improve-1", "improve-5", "improve-grpo", "improve-vpo", "vpo"]
    },
    "int8": "leave --dtype out, or take bfloat16; a server runs a rounded model (openai:MODEL@URL)",
}
"""Values and addresses by their text: methods, strategies, policies, formats, problem sets."""


def replace_hint(kind: Mapping[str, str | tuple[str, tuple[Any, ...]]], name: str) -> str:
    """The line for `name` if it was removed, else an empty text."""
    if name not in kind:
        return ""
    row = kind[name]
    return f"{name} was removed; {row if isinstance(row, str) else row[0]}"


def refuse_retired(name: str) -> None:
    """Raise BadAddress if the value or address `name` was removed."""
    if line := replace_hint(NAMES, name):
        raise BadAddress(line)


def drop_retired(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Stored settings without the keys that are gone and were not used; those that were used stay, so that they are
    refused by name where the settings are validated."""
    kept: dict[str, Any] = {}
    for key, value in values.items():
        path = prefix + key
        if path in KEYS and value in KEYS[path][1]:
            continue
        kept[key] = drop_retired(value, path + ".") if isinstance(value, Mapping) else value
    return kept


_OWN, _SHARDS = "an answer is paid for what it reached itself", "vpo.trl.VPOTrainer shards a model over processes"
_RUNS, _STEPS = "name the runs to learn from with from_traces", "leave it out: a training ends by its steps and budgets"
_OF_TRAINING: dict[str, tuple[str, tuple[Any, ...]]] = {
    "credit": (_OWN, ("own",)),
    "horizon": (_OWN, (50,)),
    "discount": (_OWN, (0.9,)),
    "beta": ("use kl to stay near the start", (0.1,)),
    "likelihood": ("use improve, which maximises the likelihood of better answers", (1.0,)),
    "fsdp": (_SHARDS, (False,)),
    "fsdp_offload": (_SHARDS, (False,)),
    "stop_at_chance": (_STEPS, (True, False)),
    "min_diversity": ("steps ends training, and evo show names the diversity", (None,)),
    "trackers": ("read metrics.jsonl in the directory of the run, or evo report it", ([],)),
    "trace_versions": (_RUNS, ([],)),
    "trace_after": (_RUNS, (None,)),
    "trace_before": (_RUNS, (None,)),
    "trace_problems": ("search them in a run of their own and name it in from_traces", ([],)),
    "trace_iterations": ("all iterations of the runs in from_traces count", (None,)),
    "trace_most_behind": ("the importance weights correct for old versions", (None,)),
    "unsolved": ("leave it out: groups of solved problems teach too", (False,)),
}
"""Keys of a training: of `evo train`, of a search's section `train`, and as flags of both."""
for _key, _row in _OF_TRAINING.items():
    KEYS[_key] = KEYS[f"train.{_key}"] = _row
    FLAGS[f"--{_key.replace('_', '-')}"] = FLAGS[f"--train-{_key.replace('_', '-')}"] = _row[0]
FLAGS["--no-stop-at-chance"] = _STEPS
KEYS["train.most_behind"] = ("use train.max_staleness", ())
NAMES.update(
    {
        **dict.fromkeys(("dpo", "kto"), "use improve, which learns from the better answers alone"),
        "trajectory_balance": "use vpo with kl",
        "entropic": "use max_at_k or pass_at_k",
        "archive_vpo": "use vpo with reward gain, which pays what the set adds to the parents shown",
        "per_answer": "use vpo, which pays the set",
        "search-value": "use reward solve with pass_at_k or vpo_pass_at_k",
    }
)
