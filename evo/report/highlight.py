"""Python with its syntax marked for the page's style sheet."""

from __future__ import annotations

from markupsafe import Markup, escape
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from evo.report.text import visible

KINDS = (
    (Comment, "c"), (String, "s"), (Number, "m"), (Keyword, "k"), (Operator.Word, "k"), (Name.Function, "f"),
    (Name.Class, "f"), (Name.Decorator, "f"), (Name.Builtin, "b"),
)  # fmt: skip
"""Kinds of tokens, and the class of each in templates/page.css; all others look like text."""


def highlight_python(code: str) -> Markup:
    """The code, escaped, every character visible; a text that is no Python is marked as far as it goes."""
    parts = []
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(code):
        shown = escape(visible(text))
        name = next((name for known, name in KINDS if kind in known), None)
        parts.append(shown if name is None else Markup('<span class="{}">{}</span>').format(name, shown))
    return Markup("").join(parts)
