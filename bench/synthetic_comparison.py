"""A comparison of random answers, written as searches write theirs, at once or at a rate."""

from __future__ import annotations

import time
import zlib
from typing import Any

import numpy as np

ARMS = {"base": 0.010, "best-of-n": 0.008, "grpo": 0.006, "vpo": 0.014}
"""Chance of an iteration to solve, of the easiest problem."""
NAME = "synthetic"
OBJECTIVES = ("completion", "gold", "diamond", "safety")


class Writer:
    """Commits prompt groups like a search does, as far as a reader can tell, but of random answers."""

    def __init__(self, store: Any, run_id: int, problems: list[Any], chance: float, seed: int) -> None:
        self.store, self.run_id, self.problems, self.chance = store, run_id, problems, chance
        self.rng = np.random.default_rng(seed)
        self.sequence = 0
        self.best = [0.0] * len(problems)
        self.solved = [False] * len(problems)

    def commit(self, groups: int) -> None:
        """The next groups, in one transaction, over the problems in turns."""
        from sqlalchemy import func, insert, select, update

        from islands.blobs import pack_texts
        from islands.schema import Answer, Candidate, Problem, PromptGroup, PromptText, Rollout

        rng, now = self.rng, time.time()
        with self.store.begin() as tx:
            connection = tx.connection
            policy = self.store.policy_version(self.run_id, "synthetic@1", tx)
            first = {m: (connection.execute(select(func.max(m.c.id))).scalar() or 0) + 1
                     for m in (PromptGroup, Rollout, Candidate)}  # fmt: skip
            rows: dict[Any, list[dict[str, Any]]] = {
                m: [] for m in (PromptGroup, PromptText, Rollout, Candidate, Answer)
            }
            for n in range(groups):
                index = self.sequence % len(self.problems)
                problem, iteration = self.problems[index], self.sequence // len(self.problems)
                group, rollout = first[PromptGroup] + n, first[Rollout] + n
                rows[PromptGroup].append(dict(
                    id=group, run_id=self.run_id, problem_id=problem.id, sequence=self.sequence, iteration=iteration,
                    island=iteration % 5, operator=0, parent_id=None, inspirations=[],
                    stream=self.sequence, seed=0, temperature=1.0, policy_version_id=policy, answers=3,
                    sampling_seconds=0.01, scoring_seconds=0.001, created=now, given=3, born=3, best=None,
                    best_fitness=None, cells=None,
                ))  # fmt: skip
                row = rows[PromptGroup][-1]
                texts = pack_texts(("", "x" * 600, ""))
                rows[PromptText].append(dict(group_id=group, texts=texts, token_ids=zlib.compress(b"")))
                rows[Rollout].append(dict(
                    id=rollout, group_id=group, position=0, text="R" * 80, token_ids=b"", logprobs=b"", finish="stop",
                    format_error=None,
                ))  # fmt: skip
                for answer in range(3):
                    candidate = first[Candidate] + 3 * n + answer
                    solves = rng.random() < self.chance * (1 - index / len(self.problems)) / 3
                    vector = rng.integers(0, 5, len(OBJECTIVES)) / 4
                    fitness = 1.0 if solves else float(min(0.99, vector.mean() * (0.9 + 0.1 * rng.random())))
                    rows[Candidate].append(dict(
                        id=candidate, problem_id=problem.id, group_id=group, sequence=self.sequence,
                        identity=rng.bytes(16), text="R" * 40, rewards=vector.tolist(), fitness=fitness,
                        features={"length": 0.5}, measures=[0.5], feedback="Reached the end in 20 of 27 steps.",
                        error=None if rng.random() < 0.9 else "invalid", generation=1, island=iteration % 5,
                        parent_id=max(1, candidate - 3), created=now,
                    ))  # fmt: skip
                    rows[Answer].append(
                        dict(rollout_id=rollout, position=answer, candidate_id=candidate, repeat=False, seconds=0.001)
                    )
                    if iteration < 15:
                        row["cells"] = [*(row["cells"] or []), [iteration % 5, f"{iteration}-{answer}", candidate]]
                    if fitness >= 1.0 and not self.solved[index]:
                        self.solved[index] = True
                        values = {"solved_sequence": self.sequence, "status": "solved"}
                        connection.execute(update(Problem).where(Problem.c.id == problem.id).values(**values))
                    if fitness > self.best[index] and rows[Candidate][-1]["error"] is None:
                        self.best[index] = fitness
                        connection.execute(
                            update(Problem)
                            .where(Problem.c.id == problem.id)
                            .values(best=candidate, best_fitness=fitness)
                        )
                        row["best"], row["best_fitness"] = candidate, fitness
                self.sequence += 1
            for mapped, of in rows.items():
                if of:
                    connection.execute(insert(mapped), of)


def make(path: str, problems: int, iterations: int, seeds: int, left: int) -> list[Writer]:
    """A comparison of four arms, all but the last `left` iterations of each search committed."""
    from islands.comparisons import PlannedRun, plan, runs_named
    from islands.store import Store

    config = dict(problems=[f"maze:hard/{i}" for i in range(problems)], iterations=iterations, rollouts=1, answers=3,
                  policy="synthetic", until_solved=False, max_answers=None, max_seconds=None)  # fmt: skip
    store = Store.open(path)
    planned = [PlannedRun(arm, seed, {**config, "seed": seed}) for seed in range(seeds) for arm in ARMS]
    plan(store, NAME, planned, command="bench", commit="")
    writers = []
    for run in runs_named(store, NAME):
        store.finish_run(run.id, "running" if left else "done")
        with store.begin() as tx:
            rows = [
                store.add_problem(run.id, i, f"maze:hard/{i}", f"maze:hard/{i}", OBJECTIVES, 1.0, "route", tx)
                for i in range(problems)
            ]
        writers.append(Writer(store, run.id, rows, ARMS[str(run.arm)], run.id))
    for writer in writers:
        for start in range(0, problems * (iterations - left), 5_000):
            writer.commit(min(5_000, problems * (iterations - left) - start))
    return writers


def grow(writers: list[Writer], rate: float, seconds: float) -> None:
    """Commit `rate` groups a second over all runs, with telemetry once a second, as searches do."""
    began, done, told = time.time(), 0, 0.0
    while (passed := time.time() - began) < seconds:
        due = int(passed * rate) - done
        for writer in writers:
            share = max(1, due // len(writers))
            if due > 0:
                writer.commit(share)
                done += share
        if passed - told >= 1.0:
            told = passed
            for writer in writers:
                summary = dict(answers_per_second=rate * 3 / len(writers), tokens_per_second=rate * 60, policy_busy=0.9,
                               scoring_queue=3, answers=done, tokens=done * 60, groups=done, migrations=1, repeats=2,
                               errors={"invalid": done // 10, "format": 3}, seconds=passed, at=time.time())  # fmt: skip
                writer.store.finish_run(writer.run_id, "running", summary=summary)
        time.sleep(0.1)
