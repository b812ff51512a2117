"""Removes secrets from text that is printed or stored: passwords and keys in URLs, values of environment variables with
secret names, and strings in the form of a key.

Secrets that look like other text stay: a key in the path of a URL, and one in a variable with a harmless name.
"""

from __future__ import annotations

import os
import re
from typing import Any

HIDDEN = "***"
_SHORTEST = 6
"""Characters; a shorter value is as likely a word of the text."""
_CONTEXT = 4096
_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|SECRET_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PGPASSWORD|CREDENTIALS?)$",
    re.IGNORECASE,
)
_FORMS = {
    # http has no slash before the host; an @ before http:// parts a policy's model from its server
    r"(\bhttps?://)[^\s/?#'\"]*@(?!https?://)": r"\1***@",
    # a database's password may hold a slash, and an @ that should have been written %40
    r"(?<![a-z0-9+.-])((?!https?:)[a-z][a-z0-9+.-]*://[^:/@\s]*):[^\s@]*(?:@[^\s@/]*)*@": r"\1:***@",
    # after a question mark; ?key=NAME is a policy's, in capitals
    r"([?&](?:ssl)?passw(?:or)?d=)[^&\s'\",]+": r"\1***",
    r"([?&](?:[a-z]+[_-])*(?:apikey|token|secret|sig|signature)=)[^&\s'\",]+": r"\1***",
    r"([?&](?:[a-z]+[_-])*key=)(?-i:(?![A-Z_][A-Z0-9_]*(?:[&\s'\",]|$)))[^&\s'\",]+": r"\1***",
    r"(\bauthorization['\"]?\s*[:=]\s*['\"]?(?:(?:bearer|basic)\s+)?)[^\s'\"]+": r"\1***",
    r"(\bx-api-key['\"]?\s*[:=]\s*['\"]?)[^\s'\"]+": r"\1***",
    r"(\bbearer\s+)[\w.~+/=-]{16,}": r"\1***",
    r"\b(?:sk|pk|hf|ghp|github_pat|xox[bap])[-_][a-z0-9_-]{16,}": "***",
}
_PATTERNS = [(re.compile(form, re.IGNORECASE), hidden) for form, hidden in _FORMS.items()]
_remembered: set[str] = set()


def remember(secret: str | None) -> None:
    """Hide this value from now on: a secret that neither its place nor its form shows."""
    if secret and len(secret) >= _SHORTEST:
        _remembered.add(secret)


def redact(text: str) -> str:
    """The text, with *** in place of secrets."""
    text = redact_known(text)
    for pattern, hidden in _PATTERNS:
        text = pattern.sub(hidden, text)
    return text


def redact_beginning(text: str, length: int) -> str:
    """The first characters: secrets are hidden before the cut, which could leave an unrecognisable half of one."""
    return redact(text[: length + _CONTEXT])[:length]


def redact_known(text: str) -> str:
    """The text without known secret values, whatever the text around them."""
    named = {value for name, value in os.environ.items() if len(value) >= _SHORTEST and _NAME.search(name)}
    for secret in sorted(named | _remembered, key=len, reverse=True):  # longest first: one may hold another
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def redact_strings(value: Any) -> Any:
    """Plain data whose strings, those in dicts too, are without known secrets. Lists stay as they are: of numbers."""
    if isinstance(value, str):
        return redact_known(value)
    return {key: redact_strings(item) for key, item in value.items()} if isinstance(value, dict) else value
