"""Models that reason before they answer: which ones do, how long they may, and how a server switches it on or off."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from problems.contract import BadAddress
from vpo.openai.address import Endpoint

WHOLE_PROGRAM, REASONED = 4096, 32_768
"""Tokens of a reply if the user sets no limit: of a model that answers at once (OpenEvolve's default), and of one whose
reasoning counts too."""

_REASONING = re.compile(
    r"(?:^|/)(?:o[1345](?:-|$)|gpt-5|gpt-oss|deepseek-reasoner|deepseek-r1|qwq|magistral|gemini-(?:2\.5-pro|2\.5-flash(?!-lite)|3)"
    r"|grok-4)|thinking|reasoning",
    re.IGNORECASE,
)
"""Names of public models that reason unless told otherwise."""
_ANSWERS_AT_ONCE = re.compile(r"gpt-5[.\d]*-chat|non-(?:reasoning|thinking)", re.IGNORECASE)
_FIXED_TEMPERATURE = re.compile(r"(?:^|/)(?:o[1345](?:-|$)|gpt-5)", re.IGNORECASE)

_TEMPLATE = {"vllm", "sglang", "llamacpp"}
"""Engines whose chat templates take `enable_thinking`."""
_SWITCHES: Mapping[str, Callable[[bool], dict[str, Any]]] = {
    "openrouter.ai": lambda on: {"reasoning": {"enabled": on}},
    "dashscope.aliyuncs.com": lambda on: {"enable_thinking": on},
    "dashscope-intl.aliyuncs.com": lambda on: {"enable_thinking": on},
    "api.deepseek.com": lambda on: {"thinking": {"type": "enabled" if on else "disabled"}},
    "api.z.ai": lambda on: {"thinking": {"type": "enabled" if on else "disabled"}},
    "generativelanguage.googleapis.com": lambda on: {"reasoning_effort": "medium" if on else "none"},
}
"""By the host: what a request says there for thinking on or off."""


def reasons(place: Endpoint) -> bool:
    """Whether the model reasons before it answers, by the options of its address, else by its name."""
    options = place.options
    if options.thinking != "auto":
        return options.thinking == "on"
    if options.reasoning_effort is not None:
        return options.reasoning_effort != "none"
    return bool(_REASONING.search(place.model)) and not _ANSWERS_AT_ONCE.search(place.model)


def fixes_temperature(place: Endpoint) -> bool:
    """Whether the model takes no temperature but 1, as OpenAI's reasoning models do."""
    return bool(_FIXED_TEMPERATURE.search(place.model)) and reasons(place)


def choose_limit(place: Endpoint, needed: int, context: int | None, learned: bool) -> int:
    """Tokens of a reply that is to hold `needed` tokens of answers. Room rather than a target: a reply ends by itself.

    context: the model's, None if unknown; at most half of it is taken for the reply, unless `needed` is more
    learned: whether its server has shown that it reasons
    """
    room = REASONED if reasons(place) or learned else WHOLE_PROGRAM
    if context is not None:
        room = min(room, context // 2)
    return max(needed, room)


def requested_fields(place: Endpoint, engine: str) -> dict[str, Any]:
    """What each request says in addition, as the options of the address ask. Raises BadAddress if it is not known how
    this server switches thinking."""
    options = place.options
    fields: dict[str, Any] = {}
    if options.thinking != "auto":
        on, host = options.thinking == "on", urlsplit(place.url).hostname or ""
        if engine in _TEMPLATE:
            fields |= {"chat_template_kwargs": {"enable_thinking": on}}
        elif host in _SWITCHES:
            fields |= _SWITCHES[host](on)
        else:
            raise BadAddress(
                f"{place.url} is none of the servers whose switch for thinking is known: leave out ?thinking=, and use "
                '?reasoning_effort= or the server\'s own field, as in ?body={"enable_thinking":true}'
            )
    if options.reasoning_effort is not None:
        fields["reasoning_effort"] = options.reasoning_effort
    return fields | options.body
