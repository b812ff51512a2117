"""An arm's best answer to the selected problem: its vector, lineage, text, and difference to its parent."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from evo.progress.answer import Statement, StoredAnswer
from evo.progress.snapshot import Detail, Snapshot
from evo.tui.line import clean, clean_lines, shorten
from evo.tui.palette import STRONG, Palette
from evo.values import mark, write_number, write_signed, write_value
from islands.browse import CandidateDetail

_LINEAGE_TOLD_APART = 6
_MOST_CHARS = 40_000
"""Of one text; a longer one is cut."""


def tabs(snapshot: Snapshot, problem: int, arm: int, palette: Palette) -> Text:
    """The problem's name, and the arms side by side."""
    text = Text(shorten(snapshot.problems[problem].name, 30) + "  ", STRONG)
    for number, one in enumerate(snapshot.arms):
        style = palette.arm(number) + Style(reverse=number == arm)
        text.append(f" {palette.mark(number)} {shorten(one.name, 14)} ", style)
    return text


def draw_detail(snapshot: Snapshot, problem: int, arm: int, palette: Palette) -> RenderableType:
    """Everything about the selected arm's best answer, as many lines as it takes."""
    detail = snapshot.detail
    if detail is None or (detail.problem, detail.arm) != (problem, snapshot.arms[arm].name):
        return Text("reading …", palette.muted)
    if detail.stored is None or detail.answer is None:
        return Group(Text("no valid answer yet", palette.muted), *_picture(detail.stated), *_prompt(detail))
    drawn = draw_answer(detail.stored, detail.answer, detail.seed, detail.stated, palette)
    return Group(drawn, *_prompt(detail))


def draw_best(snapshot: Snapshot, palette: Palette) -> RenderableType:
    """The origin, vector, picture and text of the best answer to the selected problem."""
    detail = snapshot.detail
    if detail is None or detail.stored is None or detail.answer is None:
        return Text("no valid answer yet", palette.muted)
    arm = f" of {clean(detail.arm)}" * (len(snapshot.arms) > 1)
    problem = f" to {shorten(detail.stored.problem.name, 30)}" * (len(snapshot.problems) > 1)
    line = Text(f"best answer{arm}{problem}  ", STRONG).append(f"{_born(detail.stored, detail.seed)}  ", palette.muted)
    drawn = [Text(clean_lines(detail.stated.picture))] * bool(detail.stated.picture.strip())
    return Group(line.append_text(_vector(detail.answer, palette)), *drawn, _text(detail.stored))


def _born(stored: CandidateDetail, seed: int) -> str:
    born = "the seed answer" if stored.iteration is None else f"iteration {stored.iteration + 1}, seed {seed}"
    return f"candidate {stored.candidate.id}, {born}"


def _text(stored: CandidateDetail) -> RenderableType:
    """The answer, a program in colours."""
    text = clean_lines(stored.candidate.text[:_MOST_CHARS])
    if stored.problem.answer_format != "python":
        return Text(text)
    return Syntax(text, "python", theme="ansi_dark", background_color="default", word_wrap=True)


def draw_answer(
    stored: CandidateDetail, answer: StoredAnswer, seed: int, stated: Statement, palette: Palette
) -> RenderableType:
    """An answer with its provenance, without its prompt. seed: of its search"""
    candidate, parent, target = answer.candidate, answer.parent, answer.target
    others = (target, *(value for _, value in answer.line[1:2]))
    line = Text(f"{target.measure.title} ", palette.muted)
    line.append(write_value(answer.value, others, arrow=False), STRONG)
    if target.number is not None:
        line.append(f" of {write_value(target, (answer.value, *others), arrow=False)}", palette.muted)
    again = f", found {stored.found}×" * (stored.found > 1)
    line.append(f"   {_born(stored, seed)}, island {candidate.island}{again}", palette.muted)
    bests = [value for _, value in answer.line[:_LINEAGE_TOLD_APART]]
    steps = [f"{id} ({write_value(value, bests, arrow=False)})" for id, value in answer.line]
    if len(steps) > 1 and candidate.generation >= len(steps):
        steps.append(f"{candidate.generation + 1 - len(steps)} more")
    features = "  ".join(f"{clean(name)} {value:.4g}" for name, value in candidate.features.items())
    labelled = (
        ("known", Text(answer.describe_known(stated.best_known))),
        ("policy", Text(clean(stored.policy_version or "the seed answer"))),
        ("vector", _vector(answer, palette)),
        ("cell by", Text(features)),
        ("archive", Text(", ".join(f"cell {cell} of island {island}" for island, cell in stored.cells))),
        ("lineage", Text(" ← ".join(steps))),
        ("scorer", Text(clean_lines((candidate.feedback or candidate.error or "")[:_MOST_CHARS]))),
    )
    parts: list[RenderableType] = [line]
    parts += [Text(f"{label:<8}", palette.muted).append_text(text) for label, text in labelled if text.plain.strip()]
    parts += _picture(stated)
    if parent is not None and answer.difference:
        parts += [_title(f"changes to its parent {parent.id}"), _difference(answer, palette)]
    return Group(*parts, _title("answer"), _text(stored))


def _title(text: str) -> Text:
    return Text(f"\n── {text} ──", STRONG)


def _picture(stated: Statement) -> list[RenderableType]:
    picture = stated.picture
    return [_title("picture"), Text(clean_lines(picture))] if picture.strip() else []


def _prompt(detail: Detail) -> list[RenderableType]:
    origin, given = detail.origin, detail.stored is not None and detail.stored.iteration is not None
    parts: list[RenderableType] = []
    for title, text in (
        ("the problem's statement", detail.stated.text),
        ("system prompt", origin.system),
        ("prompt" if given else "a prompt of this problem", origin.user),
        (f"the model's full text, in which this is answer {origin.place + 1}", origin.chain),
    ):
        if text.strip():
            parts += [_title(title), Text(clean_lines(text[:_MOST_CHARS]))]
    return parts


def _vector(answer: StoredAnswer, palette: Palette) -> Text:
    text = Text()
    for objective, value, change in answer.changes:
        text.append(f"{shorten(objective.name, 20)} {write_number(value, (objective.seed,))}{mark(objective)}")
        if abs(change) > 0:
            worse = (change > 0) == objective.lower
            text.append(f" ({write_signed(change, (value,))})", palette.bad if worse else palette.good)
        if objective.seed is not None:
            text.append(f" seed {write_number(objective.seed, (value,))}", palette.muted)
        text.append("  ")
    return text


def _difference(answer: StoredAnswer, palette: Palette) -> Text:
    """Lines with + and -, or words and moves in brackets: {+added+} [-removed-]."""
    text, unit = Text(), answer.unit
    for piece in answer.difference:
        style = {"new": palette.good, "old": palette.bad, "gap": palette.muted}.get(piece.kind, Style())
        shown = "\n".join(map(clean, piece.text.split("\n")))
        if unit == "lines":
            text.append({"new": "+ ", "old": "- "}.get(piece.kind, "  ") + shown + "\n", style)
        else:
            word = shown.lstrip()
            space = " " if text.plain.endswith("-]") else shown[: len(shown) - len(word)]
            text.append(space + {"new": f"{{+{word}+}}", "old": f"[-{word}-]"}.get(piece.kind, word), style)
    return text
