"""The page: one HTML file with everything in it. Every text is escaped and made visible; the page's policy forbids it
any request and any script but its own, so that even a hole in the escaping would run and send nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from evo.encoding import visible
from evo.monitor.arm_style import BLUE, WARN
from evo.report.problem_table import detail_id
from evo.report.report import Report

SCRIPTS = ("vendor/vega.bundle.js", "charts.js", "page.js")
KINDS = (
    (Comment, "c"), (String, "s"), (Number, "m"), (Keyword, "k"), (Operator.Word, "k"), (Name.Function, "f"),
    (Name.Class, "f"), (Name.Decorator, "f"), (Name.Builtin, "b"),
)  # fmt: skip
"""Kinds of tokens, and the class of each in templates/page.css; all others look like text."""
WORDS: tuple[tuple[str, str], ...] = (
    ("arm", "a policy with its settings; all arms search the same problems with the same number of answers"),
    ("reference", "the arm that the others are measured against: the one called grpo, else the first"),
    ("seed", "one repetition of a search, with its own random choices"),
    ("iteration", "one prompt to the policy, the answers to it, their scores, and their place in the population"),
    ("answer, rollout", "a rollout is one text that the policy wrote; it holds one answer or a chain of several"),
    ("fitness, target", "fitness is the one number that an answer is ranked by; an answer at the target solves it"),
    ("reward vector", "an answer's value for each objective; fitness is made of it"),
    ("horizon", "the last iteration that every search has come to; figures are taken there"),
    ("solve rate", "share of searches that were solved by the horizon"),
    ("area", "mean solve rate over all iterations up to the horizon: 1 where everything is solved at once"),
    ("median time", "the iteration by which half of the searches were solved; the screen and evo compare call it half"),
    ("mean best", "mean over searches of the best fitness; a search without a valid answer counts 0"),
    ("best@k", "expected best fitness among k answers drawn without replacement"),
    (
        "95% interval, band",
        "where the value lies, as these problems tell it; over seeds where there is one problem",
    ),
    ("shown", "the difference is larger than chance explains: p is at most 0.05, and the interval leaves out 0"),
    ("p", "how often chance alone would give as large a difference, corrected for the number of arms (Bonferroni)"),
    ("won, lost, level", "of one problem against the reference, by seeds that solved it, then time, then best fitness"),
    ("diversity (L1)", "mean over pairs of answers of the summed differences of their reward vectors"),
    ("vectors", "how many different reward vectors the valid answers of a search have had"),
    ("valid", "an answer that could be read and scored without an error"),
    ("format", "an error of a rollout whose answers could not be read; the other kinds are errors of answers"),
    ("cells", "places of the archive, by what answers are like; each keeps its fittest answer"),
    ("front", "reward vectors that no other vector beats in one objective without losing in another"),
    ("island, migration", "a part of the population that is bred apart, and a copy from one part to another"),
    ("parent, lineage", "the answer that a prompt asked to improve, and the line of parents of an answer"),
    ("better", "share of answers that are better than the parent that their prompt showed"),
    ("kept", "share of the parent that an answer keeps: a route's beginning and end, a program's lines"),
    ("copies", "answers equal to something that their prompt showed"),
    ("repeats", "answers that the search had stored before; they are not scored again"),
    ("alone", "answers whose prompt showed no parent"),
    ("missing", "answers that were asked for and that no rollout gave"),
    ("sampling, scoring, commit", "seconds in which the policy wrote, answers were scored, the database stored"),
    ("wall", "seconds from the beginning of a run to its end"),
    ("busy", "share of the time in which the policy was sampling"),
    ("queue", "answers that wait for their score"),
    ("policy version", "a policy that learns while it searches has a new version after every update"),
    ("loss, kl, entropy, clipped", "the trainer's own: objective, distance from the start, spread, share of cut steps"),
    ("only", "problems that this arm alone has solved"),
)
"""The words of the page, each explained once. Headings of tables say more where the pointer rests on them."""


def page_of(report: Report) -> str:
    """The whole page as text; the same report gives the same page."""
    environment = Environment(
        loader=PackageLoader("evo.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["image"] = _image
    environment.filters["json"] = _json
    environment.filters["python"] = highlight_python
    folder = files("evo.report") / "templates"
    style = (folder / "page.css").read_text(encoding="utf-8") + _arm_rules(report)
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    template = environment.get_template("page.html.jinja")
    # our own files: they go in as they are, since an escaped script is none
    return template.render(
        report=report, words=WORDS, detail_id=detail_id, policy=policy, style=Markup(style), script=Markup(script)
    )


def _arm_rules(report: Report) -> str:
    """Each arm's colour and mark, before its name wherever that stands; the colours of the rest."""
    rules = [f":root {{ --blue: {BLUE}; --warn: {WARN}; }}\n"] + [
        f'[data-arm="{place}"]::before {{ content: "{style.mark}\\00a0"; color: {style.colour}; }}\n'
        for place, style in enumerate(report.arm_styles)
    ]
    return "".join(rules)


def _shown(value: Any) -> Any:
    """What every expression of the template passes on its way out, before it is escaped."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _image(png: bytes) -> Markup:
    return Markup("data:image/png;base64," + base64.b64encode(png).decode("ascii"))


def _json(value: Any) -> Markup:
    """For a script element: ASCII, and nothing in it that HTML could take for a tag or an entity."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def highlight_python(code: str) -> Markup:
    """The code, escaped, every character visible; a text that is no Python is marked as far as it goes."""
    parts = []
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(code):
        shown = escape(visible(text))
        name = next((name for known, name in KINDS if kind in known), None)
        parts.append(shown if name is None else Markup('<span class="{}">{}</span>').format(name, shown))
    return Markup("").join(parts)
