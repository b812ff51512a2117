"""How well ordinary instruction models keep to chains of m programs: parse rates, repeats, tests passed, tokens.

    python -m bench.chains sample DIR --policy MODEL --tasks programs:mbpp.jsonl/100-119 [--answers 1 3 5]
           [--rollouts 2] [--wordings product] [--stages first later] [--seed 0]
    python -m bench.chains measure DIR [DIR ...] [--replay] [-o FILE.md]

`sample` asks with the product's own prompts and keeps every rollout, raw, as one line of DIR/rollouts.jsonl: every task
without a parent (`first`, an iteration that knows nothing) and with a parent and another answer shown (`later`), which
are single answers of the same model, sampled once and kept in DIR/parents.jsonl. Other wordings (chain_wordings.py) are
asked on the same tasks and parents with the same limits. A folder is filled by several runs of one command: each begins
no batch after --seconds, and asks for nothing that is there. `measure` reads, scores and tabulates; the outcome of each
rollout is kept beside it, and `--replay` reads the raw text again, with the parser as it is now, without sampling.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.chain_wordings import WORDINGS, worded  # noqa: E402
from evo.config.run import PromptConfig  # noqa: E402
from evo.prompts.chat import ChatFormat  # noqa: E402
from evo.search.score import AnswerScores, score_rollouts  # noqa: E402
from islands.types import NOTHING_SHOWN, Candidate, Selection  # noqa: E402
from problems.contract import Problem  # noqa: E402
from problems.registry import close_shared_sandbox, resolve  # noqa: E402
from problems.scoring import Scorer  # noqa: E402
from problems.types import Rollout  # noqa: E402

ROLLOUTS, OUTCOMES, PARENTS = "rollouts.jsonl", "outcomes.jsonl", "parents.jsonl"
STAGES = ("first", "later")
Row = dict[str, Any]
Job = tuple[int, str, str]
"""The place of a task, the stage, the wording."""


def main() -> None:
    """Sample or measure, by the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    sample = commands.add_parser("sample")
    sample.add_argument("folder", type=Path)
    sample.add_argument("--policy", required=True)
    sample.add_argument("--tasks", required=True, help="an address of programs")
    sample.add_argument("--answers", type=int, nargs="+", default=[1, 3, 5])
    sample.add_argument("--rollouts", type=int, default=2)
    sample.add_argument("--wordings", choices=sorted(WORDINGS), nargs="+", default=["product"])
    sample.add_argument("--stages", choices=STAGES, nargs="+", default=list(STAGES))
    sample.add_argument("--temperature", type=float, default=0.8)
    sample.add_argument("--tokens", type=int, default=256, help="limit of a rollout, for each answer asked of it")
    sample.add_argument("--batch", type=int, default=48, help="rollouts at once")
    sample.add_argument("--seconds", type=float, default=540.0, help="begin no batch after this time")
    sample.add_argument("--dtype", default="bfloat16")
    sample.add_argument("--seed", type=int, default=0)
    measure = commands.add_parser("measure")
    measure.add_argument("folders", type=Path, nargs="+")
    measure.add_argument("--replay", action="store_true", help="read and score again what has been measured before")
    measure.add_argument("--by-stage", action="store_true", help="prompts without and with a parent apart")
    measure.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.command == "sample":
        asyncio.run(sampled(given))
        return
    from bench.chains_report import table

    for folder in given.folders:
        if given.replay or not (folder / OUTCOMES).is_file():
            asyncio.run(measured(folder))
    text = table([(folder, list(lines(folder / OUTCOMES))) for folder in given.folders], given.by_stage)
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    print(text)


async def sampled(given: argparse.Namespace) -> None:
    """Ask, and write the raw rollouts down as they come; what the folder holds already is not asked again."""
    from vpo.policies.registry import load_policy

    problems = resolve(given.tasks)
    given.folder.mkdir(parents=True, exist_ok=True)
    path, model = given.folder / ROLLOUTS, Path(given.policy).name
    there = {_asked(row) for row in lines(path)} if path.is_file() else set()
    policy = load_policy(given.policy, temperature=given.temperature, dtype=given.dtype, batch=given.batch)
    started = time.perf_counter()
    try:
        if "later" in given.stages and not (given.folder / PARENTS).is_file():
            await keep_parents(policy, problems, given)
        for m in given.answers:
            policy.max_tokens = given.tokens * m
            # wordings of one task beside one another: where the time runs out, all of them have seen the same tasks
            jobs = [
                (place, stage, wording)
                for place, problem in enumerate(problems)
                for stage in given.stages
                for wording in given.wordings
                if (model, wording, m, stage, problem.name) not in there
            ]
            for batch in batched(jobs, max(1, given.batch // given.rollouts)):
                if time.perf_counter() - started > given.seconds:
                    print("out of time; the same command goes on from here")
                    return
                await ask(policy, problems, batch, m, given)
    finally:
        await policy.close()
        close_shared_sandbox()


async def ask(policy: Any, problems: Sequence[Problem], jobs: Sequence[Job], m: int, given: argparse.Namespace) -> None:
    """One call of the policy for several prompts of one m, and its rows."""
    seen = shown(problems, given.folder)
    prompts = [
        style_of(problems[place], m, wording).build(seen[place] if stage == "later" else NOTHING_SHOWN, place)
        for place, stage, wording in jobs
    ]
    started = time.perf_counter()
    groups = await policy.sample(prompts, rollouts=given.rollouts, answers=m, seed=given.seed)
    seconds = time.perf_counter() - started
    with (given.folder / ROLLOUTS).open("a", encoding="utf-8") as file:
        for (place, stage, wording), prompt, group in zip(jobs, prompts, groups, strict=True):
            for number, one in enumerate(group):
                row = {
                    "model": Path(given.policy).name, "wording": wording, "answers": m, "stage": stage,
                    "task": problems[place].name, "rollout": number, "text": one.text, "finish": one.finish,
                    "tokens": len(one.token_ids), "asked": len(one.prompt_ids),
                    "prompt": prompt.user if number == 0 else None,
                }  # fmt: skip
                file.write(json.dumps(row) + "\n")
    tokens = sum(len(one.token_ids) for group in groups for one in group)
    rows = sum(map(len, groups))
    print(f"m={m}: {rows} rollouts, {tokens} tokens, {seconds:.0f} s, {tokens / seconds:.0f} tokens/s", flush=True)


def _asked(row: Row) -> tuple[str, str, int, str, str]:
    return row["model"], row["wording"], row["answers"], row["stage"], row["task"]


def style_of(problem: Problem, answers: int, wording: str) -> ChatFormat:
    """The product's way of asking, with the wording that is tried."""
    return worded(problem, PromptConfig(), answers, wording)


async def keep_parents(policy: Any, problems: Sequence[Problem], given: argparse.Namespace) -> None:
    """Two answers a task for the prompts of later iterations, the least fit first: the model's own single answers."""
    policy.max_tokens = given.tokens
    styles = [style_of(problem, 1, given.wordings[0]) for problem in problems]
    prompts = [style.build(NOTHING_SHOWN, place) for place, style in enumerate(styles)]
    groups = await policy.sample(prompts, rollouts=2, answers=1, seed=given.seed + 1)
    scorer = Scorer()
    with (given.folder / PARENTS).open("w", encoding="utf-8") as file:
        for problem, style, group in zip(problems, styles, groups, strict=True):
            found = {
                a.identity: a
                for one in await score_rollouts(style, group, AnswerScores(problem, scorer))
                for a in one.answers
            }
            seed = problem.canonical(problem.seed_answer())
            kept = [(a.text, a.score) for a in found.values()] or [(seed, problem.score(seed))]
            for text, score in sorted(kept, key=lambda pair: pair[1].fitness):
                row = {
                    "task": problem.name, "text": text, "rewards": score.rewards, "fitness": score.fitness,
                    "feedback": score.feedback, "error": score.error,
                }  # fmt: skip
                file.write(json.dumps(row) + "\n")
    scorer.close()


def shown(problems: Sequence[Problem], folder: Path) -> list[Selection]:
    """What a later iteration's prompt shows of each task: a parent, and another answer where there is one."""
    known = list(lines(folder / PARENTS)) if (folder / PARENTS).is_file() else []
    selections = []
    for problem in problems:
        found = [
            Candidate(i, r["text"], tuple(r["rewards"]), r["fitness"], {}, r["feedback"], r["error"], 0, 0, None)
            for i, r in enumerate(row for row in known if row["task"] == problem.name)
        ]
        selections.append(Selection(found[0] if found else None, tuple(found[1:]), tuple(found[-1:])))
    return selections


async def measured(folder: Path) -> None:
    """Parse and score every raw rollout; the outcomes go beside them."""
    rows = list(lines(folder / ROLLOUTS))
    base = sorted({row["task"].rpartition("/")[0] for row in rows})
    problems: dict[str, Problem] = {}
    for task in {row["task"] for row in rows}:
        problems[task] = resolve(task)[0]
    scorer = Scorer()
    try:
        with (folder / OUTCOMES).open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(await outcome(row, problems[row["task"]], scorer)) + "\n")
    finally:
        scorer.close()
        close_shared_sandbox()
    print(f"{len(rows)} rollouts of {', '.join(base)} read", file=sys.stderr)


async def outcome(row: Row, problem: Problem, scorer: Scorer) -> Row:
    """One rollout's outcome: per answer whether it is valid Python, defines the name asked for, passes."""
    from bench.chains_report import defines

    m = row["answers"]
    (graded,) = await score_rollouts(
        ChatFormat(problem, PromptConfig(), m), [rollout_of(row)], AnswerScores(problem, scorer)
    )
    names = problem.task.names  # type: ignore[attr-defined]
    distinct = {answer.identity: answer for answer in graded.answers}
    return {
        **{key: row[key] for key in ("model", "wording", "answers", "stage", "task", "rollout", "finish", "tokens")},
        "asked": row["asked"],
        "error": graded.format_error,
        "valid": [defines(answer.text, names) for answer in distinct.values()],
        "passes": [answer.score.fitness >= 1.0 for answer in distinct.values()],
    }


def rollout_of(row: Row) -> Rollout:
    """The stored text as the rollout it was; its tokens are counted elsewhere."""
    nothing = np.zeros(0, np.int32)
    return Rollout(row["text"], nothing, nothing.astype(np.float32), nothing, row["finish"])


def batched(jobs: Sequence[Job], size: int) -> Iterator[list[Job]]:
    """The jobs in order, `size` at a time."""
    left = iter(jobs)
    while batch := list(islice(left, size)):
        yield batch


def lines(path: Path) -> Iterator[Row]:
    """The rows of a JSON Lines file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
