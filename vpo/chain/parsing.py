"""Reading a rollout's answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from problems.identity import identity
from vpo.chain import blocks, edits, responses, tags
from vpo.chain.fences import MOST
from vpo.chain.syntax import essence, limit_parsing, parse_code
from vpo.chain.wording import check_request
from vpo.languages.contract import open_dialect
from vpo.policies.prompt_formats import is_token_format

MOST_CHARACTERS = 65_536
"""A longer text, its thinking aside, is not read: some 16,000 tokens, far beyond the limits that rollouts have."""

_THOUGHT = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


@dataclass(frozen=True)
class Chain:
    """A rollout's answers.

    answers: at most m, in the order written, no two the same: programs that differ only in comments, layout, docstrings
    or final usage examples are the same; with a variable renamed they are not (as in problems.identity) error: one line
    on missing or omitted answers; None if all m are there
    """

    answers: tuple[str, ...]
    error: str | None = None


def parse(
    text: str,
    answer_format: str,
    answers: int,
    *,
    prompt_format: str = "chat",
    prompt: str = "",
    diff_parent: str | None = None,
    truncated: bool = False,
) -> Chain:
    """The answers in a policy's text. Never raises on the text, and reads it in bounded time: a text of more than
    MOST_CHARACTERS is an error as a whole.

    answers: m, the number requested
    prompt_format: the policy's; token languages are decoded by vpo.languages
    prompt: the prompt in a token language, which the text may refer to
    diff_parent: in diff mode the program that the SEARCH/REPLACE blocks edit; the answer is the edited program. A whole
        program in a code block is taken as it is, since models that should edit often rewrite
    truncated: the token limit cut the text (Rollout.finish is "length"), so that a last unclosed text is incomplete
    Raises ValueError if the request itself is invalid (wording.check_request).
    """
    check_request(answer_format, answers, diff=diff_parent is not None)
    complaint = ""
    if not is_token_format(prompt_format):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if answer_format != "tagged":  # a tagged answer may have its thoughts as a field
            text, complaint = _spoken(text)
    if len(text) > MOST_CHARACTERS:
        return Chain((), f"{len(text)} characters written where at most {MOST_CHARACTERS} are read; write less")
    if is_token_format(prompt_format):
        return _distinct(*_compact(text, prompt_format, prompt), answer_format, answers)
    with limit_parsing():
        return _read(text, answer_format, answers, diff_parent, truncated, complaint)


def _read(
    text: str, answer_format: str, answers: int, diff_parent: str | None, truncated: bool, complaint: str
) -> Chain:
    if diff_parent is not None and (answer_format != "python" or edits.has_edits(text)):
        try:
            return Chain((edits.apply_edits(diff_parent.replace("\r\n", "\n"), text),))
        except edits.EditFault as fault:
            return Chain((), str(fault))
    if answer_format == "python":
        texts, missing = _programs(text, answers)
    elif answer_format == "route":
        texts, missing = _routes(text, answers)
    elif answer_format == "tagged":
        texts, missing = responses.read_responses(text, answers, truncated)
    else:
        texts, missing = _texts(text, answers, truncated)
    return _distinct(texts, complaint or missing, answer_format, answers)


def _spoken(text: str) -> tuple[str, str]:
    """The text without its thinking, and a complaint if the thinking never ended."""
    kept: list[str] = []
    begin, thinking = 0, False
    for mark in _THOUGHT.finditer(text):
        if mark[1]:  # an end without a beginning: the template opened it inside the prompt
            kept, thinking = (kept if thinking else []), False
            begin = mark.end()
        elif not thinking:
            kept.append(text[begin : mark.start()])
            thinking = True
    return "".join(kept) if thinking else "".join([*kept, text[begin:]]), "the thinking never ended" * thinking


def _programs(text: str, answers: int) -> tuple[list[str], str]:
    if "```" not in text and "~~~" not in text and (tagged := tags.read_tags(text, "python")):
        kept = [tag.content for tag in tagged if tag.closed or parse_code(tag.content) is not None]
        return kept, "" if len(kept) == len(tagged) else f"unclosed {_tag('answer', tagged[-1].number)} tag"
    return blocks.programs(text, answers)


def _routes(text: str, answers: int) -> tuple[list[str], str]:
    tagged = tags.read_tags(text, "route")
    if not tagged:
        alone = tags.moves(text.strip()) if answers == 1 else None
        return ([alone], "") if alone else ([], "no <route_1> tag")
    routes, complaint = [], ""
    for place, tag in enumerate(tagged, 1):
        route = tags.moves(tag.content)
        if route is None:
            name = _tag("route", tag.number or str(place))
            complaint = complaint or (f"{name} holds more than moves" if tag.closed else f"unclosed {name} tag")
        else:
            routes.append(route)
    return routes, complaint


def _texts(text: str, answers: int, truncated: bool) -> tuple[list[str], str]:
    tagged = tags.read_tags(text, "text")
    if not tagged:
        alone = text.strip()
        return ([alone], "") if answers == 1 and alone and not truncated else ([], "no <answer_1> tag")
    if truncated and not tagged[-1].closed:
        return [tag.content for tag in tagged[:-1]], f"unclosed {_tag('answer', tagged[-1].number)} tag"
    return [tag.content for tag in tagged], ""


def _tag(name: str, number: str) -> str:
    return f"<{name}_{number}>" if number else f"<{name}>"


def _compact(text: str, prompt_format: str, prompt: str) -> tuple[list[str], str]:
    dialect = open_dialect(prompt_format)
    texts = dialect.read(text, prompt)
    return texts, "" if texts else f"no {'route' if dialect.answer_format == 'route' else 'answer'} in it"


def _compared(answer: str, answer_format: str) -> str:
    return essence(answer) if answer_format == "python" else answer


def _distinct(candidates: list[str], complaint: str, answer_format: str, answers: int) -> Chain:
    """The first m distinct answers, and an error unless there are m."""
    kept: dict[bytes, str] = {}
    repeats = 0
    for answer in candidates[: max(answers, MOST)]:
        before = len(kept)
        key = identity(_compared(answer, answer_format), answer_format) if len(candidates) > 1 else b""
        kept.setdefault(key, answer)
        repeats += before == len(kept)
        if len(kept) == answers:
            return Chain(tuple(kept.values()))
    reasons = [complaint] if complaint else []
    if repeats:
        reasons.append(f"{repeats} repeated" if repeats > 1 else "1 repeated another")
    if kept or len(candidates):
        reasons = reasons or ["it wrote no more"]
        return Chain(tuple(kept.values()), f"{len(kept)} of {answers} answers found: {'; '.join(reasons)}")
    return Chain((), "; ".join(reasons) or "no answer in it")
