"""The trained operator of formulas: which problems may teach it, and what its searches solve.

    python -m bench.formulas_operator problems 0-399          addresses of formula:train without twins in formula:test
    evo compare formula:test/0-39 --arm op=embedded:formula,answers=1 --arm gp=scripted:gp,answers=1 \
      --baseline best-of-n,hill,scs --answers-per-iteration 4 --iterations 250 --seeds 1 --until-solved \
      --name probe --db sqlite:///probe.db
    python -m bench.formulas_operator report probe=sqlite:///probe.db --answers 100 1000 > table.md
    python -m bench.formulas_operator parents probe=sqlite:///probe.db --policy embedded:formula
                                    the operator, gp, and the marks without learning, on the same parents

A twin has the same formula up to constants, simplification and names of variables. Intervals of rates are Wilson's,
those of differences are paired bootstrap draws of problems, 95%. `passes` are passes of a formula over the rows that an
answer costs: those of its fit, a mean over stored answers, and for the operator and marks those of its prompts (a fit
of the parent, and the marks of terms at three nodes a column and 50 nodes a pass) shared by the answers of a prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from itertools import islice

import numpy as np

from bench.tables import markdown
from evo.api.load import load_policy
from evo.comparison.load import Arm, gather, load_results
from evo.plugins.formulas.canonical import unnamed_shape
from evo.plugins.formulas.edits.dialect import DIALECT
from evo.plugins.formulas.edits.language import read_prompt
from evo.plugins.formulas.edits.lessons import advised_answer, held_out_shapes
from evo.plugins.formulas.edits.sketch import contexts, marking_passes, sketch_of
from evo.plugins.formulas.evaluation import fit_constants, quiet
from evo.plugins.formulas.generated import generate
from evo.plugins.formulas.grammar import parse
from evo.plugins.formulas.operator import generate as breed
from evo.plugins.formulas.problem import FIT_STEPS, FormulaProblem
from evo.stats.intervals import wilson
from islands.db.store import Store
from islands.queries.candidates import CandidateReader
from islands.queries.children import children
from problems.registry import resolve
from problems.types import Prompt

DRAWS, SAMPLED = 2000, 10
PARTS, ANSWERS = 5, 4
SOLVED_FITNESS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    listing = commands.add_parser("problems")
    listing.add_argument("span", help="FIRST-LAST of formula:train")
    listing.set_defaults(run=lambda given: print(" ".join(teaching(given.span))))
    reporting = commands.add_parser("report")
    reporting.add_argument("comparisons", nargs="+", metavar="NAME=DB", help="comparisons of the same problems")
    reporting.add_argument("--against", default=None, help="the arm that differences are from; default: the first")
    reporting.add_argument("--answers", type=int, nargs="+", default=[100, 1000])
    reporting.add_argument("--new", action="store_true", help="count new answers only: a repeat costs no evaluation")
    reporting.set_defaults(run=lambda given: print(report(given.comparisons, given.answers, given.against, given.new)))
    matching = commands.add_parser("parents")
    matching.add_argument("comparison", metavar="NAME=DB", help="the comparison whose stored answers are the parents")
    matching.add_argument("--policy", required=True)
    matching.set_defaults(run=lambda given: print(on_the_same_parents(given.comparison, given.policy)))
    options = parser.parse_args()
    options.run(options)


def teaching(span: str) -> list[str]:
    """The addresses of those problems of formula:train that have no twin among published formulas and formula:test."""
    first, _, last = span.partition("-")
    places = range(int(first), int(last or first) + 1)
    return [
        f"formula:train/{k}" for k in places if unnamed_shape(generate("train", k).formula) not in held_out_shapes()
    ]


def report(comparisons: list[str], answers: list[int], against: str | None, new: bool) -> str:
    """Solve rates of every arm after so many answers, and their differences from one arm."""
    solved: dict[str, list[np.ndarray]] = {}  # by arm: (problems, seeds) at each number of answers
    costs: dict[str, str] = {}
    for given in comparisons:
        name, _, db = given.partition("=")
        with Store.open(db, read_only=True) as store:
            comparison = gather(store, name)
            costs |= {arm.name: _passes(store, arm) for arm in comparison.arms}
            if new:
                reached = {arm.name: _new_answers(store, arm) for arm in comparison.arms}
                solved |= {arm: [at <= count for count in answers] for arm, at in reached.items()}
            else:
                results = load_results(store, comparison)
                solved |= {
                    arm: [found.solved_by(count // found.answers) for count in answers]
                    for arm, found in results.items()
                }
    reference = against or next(iter(solved))
    heads = [part for count in answers for part in (f"solved at {count}", f"- {reference}")]
    rows = [["arm", *heads, "passes: fit + prompt"]]
    for arm, rates in solved.items():
        row = [arm]
        for rate, other in zip(rates, solved[reference], strict=True):
            row += [_rate(rate), "" if arm == reference else _difference(rate, other)]
        rows.append([*row, costs[arm]])
    return markdown(rows)


def _new_answers(store: Store, arm: Arm) -> np.ndarray:
    """(problems, seeds): how many new answers each search had when it solved its problem; inf if it did not."""
    table = []
    for run in arm.runs:
        column = []
        for record in store.problems(run.id):
            reached = (
                place for place, child in enumerate(children(store, record.id), 1) if child.fitness >= SOLVED_FITNESS
            )
            column.append(next(reached, np.inf))
        table.append(column)
    return np.array(table, dtype=float).T


def _passes(store: Store, arm: Arm) -> str:
    """Mean passes of an answer's fit, and of a share of its prompt, over the first SAMPLED answers of each problem."""
    fits: list[int] = []
    prompts: list[float] = []
    reads = not arm.policy.startswith("scripted:") or arm.policy == "scripted:marks"
    for run in arm.runs[:1]:
        for record in store.problems(run.id):
            (problem,) = _formulas(record.address)
            ids = [child.id for child in islice(children(store, record.id), SAMPLED)]
            for candidate in CandidateReader(store, 1 << 20).fetch(ids):
                if candidate.error:
                    continue
                x, y = problem.train
                with quiet():
                    formula = parse(candidate.text, problem.names)
                    fits.append(fit_constants(formula, x, y, steps=FIT_STEPS).evaluations + 2)
                    if reads:
                        columns = len(sketch_of(problem).columns.terms)
                        prompts.append(fits[-1] + marking_passes(columns, len(contexts(formula))))
    answers = int(arm.runs[0].config.get("rollouts", 1))
    shared = np.mean(prompts) / answers if prompts else 0.0
    return f"{np.mean(fits):.1f} + {shared:.1f}"


def on_the_same_parents(comparison: str, address: str) -> str:
    """How often ANSWERS answers of each operator are better than their parent, and how often one solves the problem.

    The parents are stored answers of the comparison's first arm that do not solve their problem, one of PARTS parts of
    each problem's search. `marks` draws terms that the prompt shows, the better marked the more often, and learned
    nothing. Prompts of gp show no other answers, so it cannot cross.
    """
    name, _, db = comparison.partition("=")
    cases: list[tuple[FormulaProblem, str, float]] = []
    with Store.open(db, read_only=True) as store:
        arm = gather(store, name).arms[0]
        for record in store.problems(arm.runs[0].id):
            (problem,) = _formulas(record.address)
            rows = [child for child in children(store, record.id) if not child.failed]
            rows = [child for child in rows if child.fitness < SOLVED_FITNESS]
            ids = sorted({rows[len(rows) * part // PARTS].id for part in range(PARTS)}) if rows else []
            found = CandidateReader(store, 1 << 20).fetch(ids)
            cases += [(problem, candidate.text, candidate.fitness) for candidate in found]
    policy = load_policy(address)
    prompts = [Prompt(DIALECT.prompt(p, text, None, 1), stream=i) for i, (p, text, _f) in enumerate(cases)]
    groups = asyncio.run(policy.sample(prompts, rollouts=ANSWERS, answers=1, seed=0))
    rows_by = dict[str, list[tuple[float, float]]]()
    for place, ((problem, text, fitness), prompt, group) in enumerate(zip(cases, prompts, groups, strict=True)):
        rng = random.Random(f"marks {place}")
        shown = read_prompt(prompt.user)
        assert shown is not None
        advised = [" ".join([">", *(advised_answer(shown, rng) or [])]) for _ in range(ANSWERS)]
        chat = Prompt(problem.statement(), stream=place, shown=(text,))
        answers = {
            "operator": [(DIALECT.read(rollout.text, prompt.user) or [""])[0] for rollout in group],
            "marks": [(DIALECT.read(chain, prompt.user) or [""])[0] for chain in advised],
            "gp": breed(chat, "text", ANSWERS, place),
        }
        for operator, texts in answers.items():
            reached = [problem.score(each).fitness for each in texts]
            better = float(np.mean([each > fitness + 1e-9 for each in reached]))
            rows_by.setdefault(operator, []).append((better, float(max(reached) >= SOLVED_FITNESS)))
    table = [["operator", "parents", "answers better than the parent", f"solves with {ANSWERS}"]]
    for operator, pairs in rows_by.items():
        better, solves = np.array(pairs).T
        table.append([operator, str(len(pairs)), _mean(better), _mean(solves)])
    return markdown(table)


def _formulas(address: str) -> list[FormulaProblem]:
    return [problem for problem in resolve(address) if isinstance(problem, FormulaProblem)]


def _mean(values: np.ndarray) -> str:
    drawn = np.random.default_rng(0).choice(values, (DRAWS, len(values))).mean(1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def _rate(solved: np.ndarray) -> str:
    low, high = wilson(solved.mean(), solved.size)
    return f"{solved.mean():.3f} [{low:.2f}, {high:.2f}]"


def _difference(solved: np.ndarray, other: np.ndarray) -> str:
    gaps = solved.mean(1) - other.mean(1)
    drawn = np.random.default_rng(0).choice(gaps, (DRAWS, len(gaps))).mean(1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{gaps.mean():+.3f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main()
