"""Options of `musique:` sets: questions drawn by their number of steps, and paragraphs left out.

`stratified=N` draws N questions, as many of 2, 3 and 4 steps (the paper's test: 300, seed 42; `seed=S` for another);
`distractors=K` keeps the needed paragraphs and K others. The paper does not name the random number generator of its
300, so ours may differ.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from evo.plugins.text_tasks.family import Row
from evo.plugins.text_tasks.musique.problem import gold_indices
from problems.contract import BadAddress

SEED = 42
OPTIONS = ("stratified", "seed", "distractors")


def select(rows: Sequence[Row], options: Mapping[str, int]) -> Sequence[Row]:
    """The rows that `stratified` draws, in the order of the file, each cut to `distractors`."""
    if "stratified" in options:
        rows = stratify(rows, options["stratified"], options.get("seed", SEED))
    elif "seed" in options:
        raise BadAddress("musique: seed goes with stratified=N")
    if "distractors" in options:
        rows = [shorten(row, options["distractors"]) for row in rows]
    return rows


def stratify(rows: Sequence[Row], total: int, seed: int) -> list[Row]:
    """total/3 questions of 2, 3 and 4 steps each."""
    if total < 3 or total % 3:
        raise BadAddress(f"musique: stratified={total} must be a multiple of 3")
    rng, chosen = random.Random(seed), []
    for hops in (2, 3, 4):
        places = [i for i, row in enumerate(rows) if len(row.get("question_decomposition") or ()) == hops]
        if len(places) < total // 3:
            raise BadAddress(
                f"musique: stratified={total} needs {total // 3} questions of {hops} steps, not {len(places)}"
            )
        chosen += rng.sample(places, total // 3)
    return [rows[i] for i in sorted(chosen)]


def shorten(row: Row, distractors: int) -> Row:
    """The paragraphs of its steps and `distractors` others, numbered again in their old order."""
    gold = set(gold_indices(row, "musique: a row"))
    others = [paragraph["idx"] for paragraph in row["paragraphs"] if paragraph["idx"] not in gold]
    rng = random.Random(f"short {row.get('id')}")
    kept = gold | set(rng.sample(others, min(distractors, len(others))))
    paragraphs = [paragraph for paragraph in row["paragraphs"] if paragraph["idx"] in kept]
    place = {paragraph["idx"]: i for i, paragraph in enumerate(paragraphs)}
    steps: list[dict[str, Any]] = [
        {**step, "paragraph_support_idx": place[step["paragraph_support_idx"]]}
        for step in row["question_decomposition"]
    ]
    renumbered = [{**paragraph, "idx": place[paragraph["idx"]]} for paragraph in paragraphs]
    return {**row, "paragraphs": renumbered, "question_decomposition": steps}
