"""What answers of an ordinary language model cost on a problem, and what they are worth in one step from a parent.

    python -m bench.real_model formula:train/0-3 --policy DIR --group 16 --limit 48 [--variants parent,forbid,fresh]

Every prompt of the first iteration shows the problem's seed as its parent, those of others an answer that scripted:gp
makes of the seed. `forbid` adds that a copy of it does not count; `fresh` shows no
parent. Seconds are CPU seconds of this process on one thread, apart for the prompts, the steps of the model, the draws
from its vocabulary and the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

import vpo.hf.decode as decoding
from evo.config.run import PromptConfig
from evo.prompts.contract import PromptFormat
from evo.prompts.registry import open_format
from islands.types import Candidate, Selection
from problems.contract import Problem
from problems.registry import resolve
from problems.types import Prompt, Rollout
from vpo.hf.policy import TransformersPolicy
from vpo.hf.rows import ExpandedRows, SharedRows
from vpo.policies.registry import load_policy

REQUEST = "# What to write\n"


class Spent:
    """CPU seconds by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[part] = self.seconds.get(part, 0.0) + time.process_time() - began

        return run


def selections(problem: Problem, form: PromptFormat, iterations: int, seed: int) -> list[Selection]:
    """What each iteration's prompt shows: the seed, then answers that scripted:gp makes of it."""
    first = show(problem, problem.seed_answer())
    if iterations == 1:
        return [first]
    prompt = form.build(first, 1)
    group = asyncio.run(load_policy("scripted:gp").sample([prompt], rollouts=4 * iterations, answers=1, seed=seed))[0]
    answers = dict.fromkeys(answer for rollout in group for answer in form.parse(rollout, first).answers)
    changed = [shown for shown in (show(problem, answer) for answer in answers) if not shown.best[0].error]
    return [first, *changed[: iterations - 1]]


def show(problem: Problem, text: str) -> Selection:
    """A prompt that shows this answer as its parent, scored."""
    score = problem.score(text)
    parent = Candidate(1, text, score.rewards, score.fitness, score.features, score.feedback, score.error, 0, 0, None)
    return Selection(parent, (), (parent,))


def build(form: PromptFormat, shown: Selection, variant: str) -> Prompt:
    if variant == "fresh":
        return form.build(Selection(None, (), ()), 1)
    prompt = form.build(shown, 1)
    if variant == "forbid":
        assert shown.parent is not None
        known = f"# Known answers\nThese do not count; write a different one:\n{shown.parent.text}\n\n"
        prompt = replace(prompt, user=prompt.user.replace(REQUEST, known + REQUEST))
    return prompt


def report(
    problems: Sequence[Problem],
    formats: Sequence[PromptFormat],
    selections: Sequence[Selection],
    groups: Sequence[Sequence[Rollout]],
    most: int,
) -> str:
    """What became of the rollouts, in a line. Prints the first `most` of each problem."""
    read = repeats = copies = better = failed = 0
    for problem, form, shown, group in zip(problems, formats, selections, groups, strict=True):
        assert shown.parent is not None
        if most:
            print("##", problem.name, problem.known_answers(0))
        start = problem.canonical(shown.parent.text)
        known = {start}
        for place, rollout in enumerate(group):
            chain = form.parse(rollout, shown)
            note = chain.error or ""
            for answer in chain.answers:
                text, score = problem.canonical(answer), problem.score(answer)
                read, copies, repeats = read + 1, copies + (text == start), repeats + (text in known)
                failed += score.error is not None
                better += score.fitness > shown.parent.fitness
                note = f"{score.fitness:.3f} {'repeat' if text in known else ''} {score.error or ''}"
                known.add(text)
            if place < most:
                print(f"{rollout.text!r} ({len(rollout.token_ids)}) | {note}")
    rollouts = sum(len(group) for group in groups)
    return (
        f"of {rollouts} rollouts: {read} answers, {failed} faults, {repeats} repeats ({copies} of the parent), "
        f"{better} better than the parent"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems")
    parser.add_argument("--policy", required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--group", type=int, nargs="+", default=[16])
    parser.add_argument("--limit", type=int, default=48)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="replies printed of each problem")
    parser.add_argument("--variants", default="parent")
    parser.add_argument("--iterations", type=int, default=1, help="calls of each problem, with different parents")
    parser.add_argument("--no-prefixes", action="store_true", help="compute every prompt whole")
    parser.add_argument("--no-share", action="store_true", help="give every row a copy of its prompt")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    policy = load_policy(
        arguments.policy,
        dtype=arguments.dtype,
        max_tokens=arguments.limit,
        threads=1,
        temperature=arguments.temperature,
    )
    assert isinstance(policy, TransformersPolicy)
    if arguments.no_share:
        policy._share = False
    if arguments.no_prefixes:
        policy.prefixes = None
    spent = Spent()
    decoding._prefill = spent.timed("prompts", decoding._prefill)
    decoding.draw = spent.timed("draws", decoding.draw)
    for kind in (ExpandedRows, SharedRows):
        kind.step = spent.timed("steps", kind.step)  # type: ignore[method-assign]

    problems = resolve(arguments.problems)
    formats = [open_format(problem, policy.prompt_format, PromptConfig(), 1) for problem in problems]
    shown = [
        selections(problem, form, arguments.iterations, arguments.seed)
        for problem, form in zip(problems, formats, strict=True)
    ]
    iterations = list(zip(*shown, strict=True))
    policy.settings()  # probes the model
    for variant in arguments.variants.split(","):
        calls = [[build(*pair, variant) for pair in zip(formats, one, strict=True)] for one in iterations]
        prompts = [prompt for call in calls for prompt in call]
        length = sum(len(policy.encode(prompt)) for prompt in prompts) / len(prompts)
        if arguments.show:
            print(prompts[0].user)
        for size in arguments.group:
            spent.seconds.clear()
            if policy.prefixes is not None:
                policy.prefixes.clear()
                policy.prefixes.computed = policy.prefixes.reused = 0
            began = time.process_time()
            groups = [
                group
                for call in calls
                for group in asyncio.run(policy.sample(call, rollouts=size, answers=1, seed=arguments.seed))
            ]
            seconds = time.process_time() - began
            spent.seconds["rest"] = seconds - sum(spent.seconds.values())
            tokens = sum(len(rollout.token_ids) for group in groups for rollout in group)
            rollouts = len(groups) * size
            parts = ", ".join(f"{part} {value:.1f}" for part, value in spent.seconds.items())
            print(
                f"{variant}: {len(prompts)} prompts of {length:.0f} tokens x {size}, {tokens} tokens "
                f"({tokens / rollouts:.1f} a rollout), {seconds:.1f} CPU s ({parts}): {tokens / seconds:.1f} tokens/s, "
                f"{rollouts / seconds:.2f} answers/s"
            )
            if policy.prefixes is not None:
                computed, reused = policy.prefixes.computed, policy.prefixes.reused
                print(f"{reused} of {computed + reused} prompt tokens reused ({reused / (computed + reused):.2f})")
            times = len(iterations)
            seen = [selection for one in iterations for selection in one]
            print(report(problems * times, formats * times, seen, groups, arguments.show), flush=True)


if __name__ == "__main__":
    main()
