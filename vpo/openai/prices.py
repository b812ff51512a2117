"""Prices of public models' tokens, so that a search can show its cost and keep a budget without `?price=`.

The prices are those of the makers' servers, at their standard tier. Other servers charge other prices, and Google
charges more for prompts above 200,000 tokens. `EVO_PRICES` names a YAML file of the same form, which takes precedence:

    api.example.com:
      some-model: 0.15/0.60/0.075      # dollars a million tokens: prompt/completion/cached prompt
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from problems.contract import BadAddress
from vpo.policies.contract import Price

VARIABLE = "EVO_PRICES"
AS_OF = "2025-11"
"""The date of the list. Prices change; the server's bill decides."""

_OPENAI = {
    "gpt-4o": "2.50/10/1.25",
    "gpt-4o-mini": "0.15/0.60/0.075",
    "gpt-4.1": "2/8/0.50",
    "gpt-4.1-mini": "0.40/1.60/0.10",
    "gpt-4.1-nano": "0.10/0.40/0.025",
    "o3": "2/8/0.50",
    "o4-mini": "1.10/4.40/0.275",
    "gpt-5": "1.25/10/0.125",
    "gpt-5-mini": "0.25/2/0.025",
    "gpt-5-nano": "0.05/0.40/0.005",
    "gpt-5.1": "1.25/10/0.125",
}
PRICES: Mapping[str, Mapping[str, str]] = {
    "api.openai.com": _OPENAI,
    "generativelanguage.googleapis.com": {
        "gemini-2.5-pro": "1.25/10/0.125",
        "gemini-2.5-flash": "0.30/2.50/0.03",
        "gemini-2.5-flash-lite": "0.10/0.40/0.01",
    },
    "api.anthropic.com": {
        "claude-opus-4-5": "5/25/0.50",
        "claude-sonnet-4-5": "3/15/0.30",
        "claude-haiku-4-5": "1/5/0.10",
    },
    "openrouter.ai": {
        **{f"openai/{model}": price for model, price in _OPENAI.items()},
        "anthropic/claude-opus-4.5": "5/25/0.50",
        "anthropic/claude-sonnet-4.5": "3/15/0.30",
        "anthropic/claude-haiku-4.5": "1/5/0.10",
        "google/gemini-2.5-pro": "1.25/10/0.125",
        "google/gemini-2.5-flash": "0.30/2.50/0.03",
        "google/gemini-2.5-flash-lite": "0.10/0.40/0.01",
    },
}
"""By the server's host, then by the model's name, which a date may follow."""

_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


def find_price(model: str, url: str) -> Price | None:
    """The price of a model at a server: the user's file first, then the list. Raises BadAddress for a file that cannot
    be read."""
    host = urlsplit(url).hostname or ""
    for table in (_read_table(os.environ.get(VARIABLE, "")), PRICES):
        prices = table.get(host, {})
        for name in (model, model.removeprefix("models/"), _DATED.sub("", model)):
            if name in prices:
                return read_price(str(prices[name]))
    return None


def read_price(text: str) -> Price:
    """`IN/OUT` or `IN/OUT/CACHED`. Raises ValueError."""
    try:
        parts = [float(part) for part in text.split("/")]
    except ValueError:
        parts = []
    if len(parts) not in (2, 3) or not all(0.0 <= part < 1e9 for part in parts):
        raise ValueError("write IN/OUT, such as 0.15/0.60")
    read, written, *cached = parts
    return Price(read, written, cached[0] if cached else read)


@lru_cache(maxsize=8)
def _read_table(path: str) -> Mapping[str, Mapping[str, Any]]:
    if not path:
        return {}
    import yaml

    try:
        table = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        for host, prices in table.items():
            for model, price in prices.items():
                try:
                    read_price(str(price))
                except ValueError as error:
                    raise BadAddress(f"{VARIABLE}={path}: {host}: {model}: {error}, not {price!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"{VARIABLE}={path}: {error}") from None
    except yaml.YAMLError as error:
        raise BadAddress(f"{VARIABLE}={path} is no YAML: {' '.join(str(error).split())}") from None
    except AttributeError:
        raise BadAddress(f"{VARIABLE}={path}: write HOST, and below it MODEL: IN/OUT") from None
    return dict(table)
