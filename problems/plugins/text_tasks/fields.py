"""Fields of a tagged answer: the first `<name>...</name>`, found in time linear in the text."""

from __future__ import annotations

import re

_THOUGHT = re.compile(r"<(/?)think>")


def first_field(text: str, name: str, *, any_case: bool = False) -> str | None:
    """What stands in the first tag of this name that is closed, as it is; None where there is none."""
    flags = re.IGNORECASE if any_case else re.NOFLAG
    begin = re.compile(re.escape(f"<{name}>"), flags).search(text)
    end = re.compile(re.escape(f"</{name}>"), flags).search(text, begin.end()) if begin else None
    return text[begin.end() : end.start()] if begin and end else None


def without_thoughts(text: str) -> str:
    """The text less its `<think>` blocks; all of it where such a block never ends."""
    kept: list[str] = []
    begin, thinking = 0, False
    for mark in _THOUGHT.finditer(text):
        if mark[1]:
            thinking, begin = False, mark.end()
        elif not thinking:
            kept.append(text[begin : mark.start()])
            thinking, begin = True, mark.start()
    return "".join([*kept, text[begin:]]).strip()
