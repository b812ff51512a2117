"""The work that bench/soak.py kills: commands small enough that a life costs a fraction of a second of processor."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

WARM = (
    *(f"evo.cli.{name}" for name in ("run", "compare", "evaluate", "pipeline", "report", "export")),
    *("psycopg", "islands.store", "evo.runs.start", "vpo.policies.scripted", "numpy.random"),
    *("pygments.lexers.html", "pygments.lexers.python", "problems.registry", "vpo.chain.parsing", "scipy.stats"),
)
MODELS = (
    *("torch", "torch._dynamo.config", "vpo.hf.policy", "transformers.models.llama.modeling_llama", "peft"),
    *("transformers.models.qwen2.modeling_qwen2", "evo.cli.train", "vpo.training.trainer"),
)
HERE = Path(__file__).resolve().parent
SCORER = HERE / "soak_scorer.py"


@dataclass(frozen=True)
class Kind:
    """One kind of work.

    words: of the command that begins it; kills: how many an episode gets; groups: that it commits in all
    start, loop: seconds of processor that starting up takes, and that a kill in the loop may come after it
    unlogged: what scores are processes of its own, whose answers are not noted
    targets: weights of killing the command alone, one of its processes alone, all at once
    """

    name: str
    words: tuple[str, ...]
    kills: int
    groups: int
    start: float = 0.15
    loop: float = 0.3
    targets: tuple[int, int, int] = (1, 0, 0)
    resume_words: tuple[str, ...] = ()
    unlogged: bool = False

    def commands(self, seed: int, db: str) -> tuple[list[str], list[str]]:
        common = ["--db", db, "--plain"]
        begin = [*self.words, "--name", "soak", "--seed", str(seed), *common]
        return begin, ["resume", "soak", *self.resume_words, *common]

    def begun(self, runs: Collection[str]) -> bool:
        """Whether its run is on record, or one of its comparison."""
        return "soak" in runs or (self.words[0] == "compare" and len(runs) > 0)


SMALL = ("--rollouts", "2", "--answers", "2", "--islands", "3")
COMPARISON = (
    "compare", "maze:test", "--limit", "2", "--arm", "a=scripted:random-route", "--arm", "b=scripted:classic",
    "--baseline", "none", "--seeds", "2", "--iterations", "100", "--answers", "2",
)  # fmt: skip
ONE, TWO = ("--processes", "1"), ("--processes", "2")
KINDS = {
    one.name: one
    for one in (
        Kind(
            "search",
            ("run", "maze:test", "--limit", "3", "--policy", "scripted:random-route", "--iterations", "300", *SMALL),
            kills=30,
            groups=900,
            start=0.12,
            loop=0.15,
        ),
        Kind(
            "scorer",
            ("run", str(SCORER), "--policy", "scripted:mutate", "--iterations", "400", *SMALL),
            kills=24,
            groups=400,
            start=0.4,
            loop=0.3,
            targets=(2, 3, 2),
        ),
        Kind("compare", (*COMPARISON, *ONE), kills=16, groups=800, loop=0.2, resume_words=ONE),
        Kind(
            "workers",
            (*COMPARISON, *TWO),
            kills=4,
            groups=800,
            start=2.5,
            loop=1.0,
            targets=(2, 2, 1),
            resume_words=TWO,
            unlogged=True,
        ),
        Kind(
            "train",
            (
                "run", "maze:test", "--limit", "2", "--policy", "embedded:base", "--iterations", "12",
                "--rollouts", "2", "--answers", "2", "--train", "vpo", "--train-every", "3",
                "--lr", "0.0003", "--device", "cpu",
            ),
            kills=6,
            groups=24,
            start=1.0,
            loop=3.0,
        ),
    )
}  # fmt: skip


def warm_up(kinds: Sequence[str]) -> None:
    """Import what lives need, once, in the process that they are forks of."""
    models = (*MODELS, "evo.training.colocated") if "train" in kinds else ()
    for name in (*WARM, *models):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
