"""Answers of the format `tagged`: fields in separate tags, several answers inside `<response_1>...</response_1>`.

As in VPO's text tasks, the first response of each number from 1 to m counts. Unlike there, one that is never closed
ends at the next numbered tag or, if no limit cut the text, at its end. A single answer is the whole text: its fields
have closing tags, so nothing half written counts.
"""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"<\s*+(/?+)\s*+response[\s_#-]*+(\d{1,3}+)\s*+>", re.IGNORECASE)
_PLACEHOLDERS = ("", "...", "…")
_OPEN, _CLOSE = "<think>", "</think>"


def read_responses(text: str, answers: int, truncated: bool) -> tuple[list[str], str]:
    """The answers in the order written, and why others were left out ("" if none were)."""
    text = _with_opened_thought(text.strip())
    fields, complaint = _numbered(_after_thought(text), answers, truncated)
    if fields or complaint:
        return fields, complaint
    if answers == 1 and text:
        return [text], ""
    return [], "no <response_1> tag"


def _numbered(text: str, answers: int, truncated: bool) -> tuple[list[str], str]:
    bodies: dict[int, str] = {}
    number, begin = 0, 0  # number of the open response, 0 if none
    for tag in _NUMBERED.finditer(text):
        if number:
            bodies.setdefault(number, text[begin : tag.start()].strip())
        number, begin = (0, 0) if tag[1] else (int(tag[2]), tag.end())
    complaint = ""
    if number and truncated and number not in bodies:
        complaint = f"unclosed <response_{number}> tag"
    elif number:
        bodies.setdefault(number, text[begin:].strip())
    kept = [body for number, body in bodies.items() if 1 <= number <= answers and body not in _PLACEHOLDERS]
    return kept, complaint


def _with_opened_thought(text: str) -> str:
    """A thought without an opening tag was opened by the model's template, inside the prompt."""
    end = text.find(_CLOSE)
    before = text[: max(end, 0)]
    return _OPEN + text if end >= 0 and _OPEN not in before and not _NUMBERED.search(before) else text


def _after_thought(text: str) -> str:
    """The text after its initial thought, if numbered responses follow there: responses inside the thought are
    drafts."""
    end = text.find(_CLOSE) if text.startswith(_OPEN) else -1
    rest = text[end + len(_CLOSE) :] if end >= 0 else ""
    return rest if _NUMBERED.search(rest) else text
