"""The page: one self-contained HTML file. Every text is escaped, with all characters visible. The page's content policy
forbids requests and all scripts but its own, so that even a text that was not escaped could run and send nothing."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from evo.encoding import visible
from evo.glossary import PAGE
from evo.monitor.arm_style import BLUE, WARN, ArmStyle
from evo.report.problem_table import detail_id

if TYPE_CHECKING:
    from evo.report.report import Report  # which draws: evo ui uses this module without matplotlib

SCRIPTS = ("vendor/vega.bundle.js.gz", "theme.js", "charts.js", "page.js", "candidates.js")
KINDS = (
    (Comment, "c"), (String, "s"), (Number, "m"), (Keyword, "k"), (Operator.Word, "k"), (Name.Function, "f"),
    (Name.Class, "f"), (Name.Decorator, "f"), (Name.Builtin, "b"),
)  # fmt: skip
"""Kinds of tokens with their classes in templates/page.css; other tokens look like text."""


def page_of(report: Report) -> str:
    """The whole page as text; the same report gives the same page."""
    style = template_file("evo.report", "page.css").decode() + arm_rules(report.arm_styles)
    script = "\n".join(template_file("evo.report", name).decode() for name in SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    template = environment_of("evo.report").get_template("page.html.jinja")
    # our own files are not escaped: an escaped script would not run
    return template.render(
        report=report,
        words=PAGE.items(),
        detail_id=detail_id,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
    )


def template_file(package: str, path: str) -> bytes:
    """A file in the templates of a package; one that is stored compressed is unpacked."""
    content = (files(package) / "templates" / path).read_bytes()
    return gzip.decompress(content) if path.endswith(".gz") else content


def environment_of(*packages: str) -> Environment:
    """An environment for the templates of these packages: all output is escaped, with every character visible."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["image"] = _image
    environment.filters["json"] = _json
    environment.filters["python"] = highlight_python
    return environment


def arm_rules(styles: Sequence[ArmStyle]) -> str:
    """Each arm's colour and mark, before its name everywhere; the other colours."""
    rules = [f":root {{ --blue: {BLUE}; --warn: {WARN}; }}\n"] + [
        f'[data-arm="{place}"]::before {{ content: "{style.mark}\\00a0"; color: {style.colour}; }}\n'
        for place, style in enumerate(styles)
    ]
    return "".join(rules)


def _shown(value: Any) -> Any:
    """The filter of every expression of the template, before it is escaped."""
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
    """The code, escaped, with every character visible. Text that is not Python is highlighted as far as possible."""
    parts = []
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(code):
        shown = escape(visible(text))
        name = next((name for known, name in KINDS if kind in known), None)
        parts.append(shown if name is None else Markup('<span class="{}">{}</span>').format(name, shown))
    return Markup("").join(parts)
