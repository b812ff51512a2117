"""Text that a model or a user wrote, as it may be shown: every character visible, so that none is taken for another
and none upsets a parser, a font or the direction of writing. Escaping for HTML is the template's, after this."""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\uffff]"
    "|[\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """Control characters as their pictures (␀), other characters that cannot be seen, lone surrogates and marks of
    direction as <U+202E>. Newlines and tabs stay."""
    return _HIDDEN.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"
