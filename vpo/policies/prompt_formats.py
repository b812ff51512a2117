"""The names of prompt formats: how to sample a policy. evo.prompts builds and reads them."""

from __future__ import annotations

from problems.contract import ANSWER_FORMATS
from problems.entry_points import find_entry_points
from vpo.languages.contract import dialect_names, open_dialect

FORMAT_ENTRY_POINTS = "evo.prompt_formats"
CHAT = "chat"
"""Messages for ordinary models."""
WORK_FOLDER = "work-folder"
"""Files in a folder, for commands (vpo.policies.command)."""
TUNED = "tuned"
"""Numbers to try in the seed, a line for each rollout (evo.prompts.registry)."""

_TOKENS = {"python": (768, 256), "text": (384, 64), "route": (128, 96), "tagged": (384, 128)}
"""Per answer format: tokens per answer, and tokens per rollout for the text around the answers."""


def is_token_format(name: str) -> bool:
    """Whether it is a token language of embedded policies (vpo.languages.contract)."""
    return name not in (CHAT, WORK_FOLDER, TUNED) and name in dialect_names()


def is_known(name: str) -> bool:
    """Whether prompts of this format can be built here."""
    return name in (CHAT, WORK_FOLDER, TUNED) or is_token_format(name) or name in find_entry_points(FORMAT_ENTRY_POINTS)


def check_answers(answer_format: str, answers: int) -> None:
    """ValueError on an unknown answer format or less than one answer."""
    if answer_format not in ANSWER_FORMATS:
        raise ValueError(f"unknown answer format {answer_format!r}: one of {', '.join(ANSWER_FORMATS)}")
    if answers < 1:
        raise ValueError(f"answers per rollout must be 1 or more, not {answers}")


def default_max_tokens(answer_format: str, answers: int, prompt_format: str = CHAT) -> int:
    """How many tokens a rollout of `answers` answers may take if the user set no limit.

    Room for long answers rather than a target: generation ends at the model's own end token, and finished rows leave
    the batch. In a token language the language itself bounds an answer's length.
    Raises ValueError on an unknown format or less than one answer.
    """
    check_answers(answer_format, answers)
    if is_token_format(prompt_format):
        return open_dialect(prompt_format).most_tokens(answers)
    each, once = _TOKENS[answer_format]
    return each * answers + once
