"""Reading a rollout's answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from problems.identity import identity
from problems.maze.board import UnreadableRoute, parse_moves
from vpo.chain.edits import EditFault, apply_edits, has_edits
from vpo.chain.programs import MOST_FENCES, find_programs
from vpo.chain.wording import check_request
from vpo.languages.contract import open_dialect
from vpo.policies.prompt_formats import is_token_format

LONGEST_TEXT = 65_536
"""A longer text, its thinking aside, is not read: some 16,000 tokens, far beyond the limits that rollouts have."""

_FAMILIES = {
    "route": ("route", "answer", "path"),
    "text": ("answer", "response", "solution"),
}
_PLACEHOLDERS = {"", "...", "…"}
_FENCE = re.compile(r"(`{3,}+|~{3,}+)[^\n`]*+\n")
_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class Chain:
    """A rollout's answers.

    answers: at most m, in the order written, no two the same by problems.identity (of programs comments and layout do
        not count)
    error: one line on missing or omitted answers, or edits that were left out; None if all m are there as written
    """

    answers: tuple[str, ...]
    error: str | None = None


def parse_chain(
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
    LONGEST_TEXT is an error as a whole.

    answers: m, the number requested
    prompt_format: the policy's; token languages are read by vpo.languages
    prompt: the prompt in a token language, which the text may refer to
    diff_parent: in diff mode the program that the SEARCH/REPLACE blocks edit; the answer is the edited program. A whole
        program in a code block is taken as it is, since models that should edit often rewrite
    truncated: the token limit cut the text (Rollout.finish is "length"), so that a last unclosed text is incomplete
    Raises ValueError if the request itself is invalid (wording.check_request).
    """
    check_request(answer_format, answers, diff=diff_parent is not None)
    complaint, in_tokens = "", is_token_format(prompt_format)
    if not in_tokens:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        text, complaint = spoken(text, tags=answer_format != "tagged")  # which may have its thoughts as a field
    if len(text) > LONGEST_TEXT:
        return Chain((), f"{len(text)} characters written where at most {LONGEST_TEXT} are read; write less")
    if in_tokens:
        dialect = open_dialect(prompt_format)
        texts = dialect.read(text, prompt)
        missing = "" if texts else f"no {'route' if dialect.answer_format == 'route' else 'answer'} in it"
    elif diff_parent is not None and (answer_format != "python" or has_edits(text)):
        left_out: list[str] = []
        try:
            edited = apply_edits(diff_parent.replace("\r\n", "\n"), text, left_out)
        except EditFault as fault:
            return Chain((), str(fault))
        return Chain((edited,), f"left out {'; '.join(left_out)}" if left_out else None)
    elif answer_format == "python":
        texts, missing = find_programs(text, answers)
    else:
        read = {"route": _routes, "tagged": _responses}.get(answer_format, _texts)
        texts, missing = read(text, answers, truncated)
    return _distinct(texts, complaint or missing, answer_format, answers)


@dataclass(frozen=True)
class _Tagged:
    """The contents of one tag. closed: it ended with a closing tag or at the next opening one, not with the text."""

    number: str
    content: str
    closed: bool

    def __str__(self) -> str:
        return self.number and f"_{self.number}"


def _read_tags(text: str, answer_format: str) -> list[_Tagged]:
    """The contents of the format's tags in order of appearance; numbers are reported, not relied on.

    The format's tag name is tried first, its usual substitutes only if it is absent. An opening tag ends an unclosed
    one before it, any closing tag of the name ends the open one. At the end of the text a tag may lack its last
    character.
    """
    found = (_scan(text, rf"{name}[\s_#-]*+(\d*+)\s*+(?:>|\Z)") for name in _FAMILIES[answer_format])
    return next((tagged for tagged in found if tagged), [])


def _scan(text: str, tag_name: str) -> list[_Tagged]:
    tagged: list[_Tagged] = []
    opened: re.Match[str] | None = None
    for tag in re.finditer(rf"<\s*+(/?+)\s*+{tag_name}", text, re.IGNORECASE):
        if opened:
            tagged.append(_Tagged(opened[2], _unwrap(text[opened.end() : tag.start()]), True))
        opened = None if tag[1] else tag
    if opened:
        tagged.append(_Tagged(opened[2], _unwrap(text[opened.end() :]), False))
    # "write <route_1>...</route_1>" repeated from the prompt is not an answer
    return [piece for piece in tagged if piece.content not in _PLACEHOLDERS]


def _unwrap(content: str) -> str:
    """Content without blank edges and without a code fence around the whole of it."""
    bare = content.strip()
    content = bare if "\n" not in bare else content.strip("\n").rstrip()
    fence = _FENCE.match(bare)
    if not fence or len(bare) < fence.end() + len(fence[1]) or not bare.endswith(fence[1]):
        return content
    inside = bare[fence.end() : -len(fence[1])].rstrip(" \t").strip("\n")
    mark = re.search(rf"^{fence[1]}[^\n]*", inside, re.MULTILINE)
    return content if mark and mark[0].strip() == fence[1] else inside  # which closes the first of several blocks


def _routes(text: str, answers: int, truncated: bool) -> tuple[list[str], str]:
    tagged = _read_tags(text, "route")
    if not tagged:
        alone = _moves(text) if answers == 1 else None
        return ([alone], "") if alone else ([], "no <route_1> tag")
    routes, complaint = [], ""
    for position, tag in enumerate(tagged, 1):
        if (route := _moves(tag.content)) is not None:
            routes.append(replace(tag, content=route))
        elif not complaint:
            name = f"<route_{tag.number or position}>"
            complaint = f"{name} holds more than moves" if tag.closed else f"unclosed {name} tag"
    return _revised(routes, answers), complaint


def _moves(content: str) -> str | None:
    try:
        return parse_moves(content)
    except UnreadableRoute:
        return None


def _texts(text: str, answers: int, truncated: bool) -> tuple[list[str], str]:
    tagged = _read_tags(text, "text")
    if not tagged:
        alone = _unwrap(text.strip())
        return ([alone], "") if answers == 1 and alone and not truncated else ([], "no <answer_1> tag")
    complaint = f"unclosed <answer{tagged[-1]}> tag" if truncated and not tagged[-1].closed else ""
    return _revised(tagged[:-1] if complaint else tagged, answers), complaint


def _revised(tagged: Sequence[_Tagged], answers: int) -> list[str]:
    """The contents; the last ones if there are more than were asked for and a number is written again: the model
    improves on a draft."""
    again = len({tag.number for tag in tagged}) < len(tagged)
    return [tag.content for tag in (tagged[-answers:] if again else tagged)]


def _responses(text: str, answers: int, truncated: bool) -> tuple[list[str], str]:
    """Answers of the format `tagged`: fields in separate tags, several answers inside `<response_1>...</response_1>`.

    As in VPO's text tasks, the first response of each number from 1 to m counts. Unlike there, one that is never closed
    ends at the next numbered tag or, if no limit cut the text, at its end. A single answer is the whole text: its
    fields have closing tags, so nothing half written counts.
    """
    numbered, text = r"response[\s_#-]*+(\d{1,3}+)\s*+>", text.strip()
    end = text.find(_CLOSE)
    drafts = _scan(text[: max(end, 0)], numbered)
    if end >= 0 and _OPEN not in text[:end] and not drafts:
        text = _OPEN + text  # the template opened the thought inside the prompt
    after = text[text.find(_CLOSE) + len(_CLOSE) :] if end >= 0 and text.startswith(_OPEN) else ""
    tagged = _scan(after, numbered) or _scan(text, numbered)
    bodies: dict[int, str] = {}
    complaint = ""
    for tag in tagged:
        if tag.closed or not truncated:
            bodies.setdefault(int(tag.number), tag.content)
        elif int(tag.number) not in bodies:
            complaint = f"unclosed <response_{tag.number}> tag"
    kept = [body for number, body in bodies.items() if 1 <= number <= answers]
    if kept or complaint:
        return kept, complaint
    return ([text], "") if answers == 1 and text else ([], "no <response_1> tag")


def _distinct(candidates: list[str], complaint: str, answer_format: str, answers: int) -> Chain:
    """The first m distinct answers, and an error unless there are m."""
    kept: dict[bytes, str] = {}
    repeats = 0
    for answer in candidates[: max(answers, MOST_FENCES)]:
        before = len(kept)
        kept.setdefault(identity(answer, answer_format) if len(candidates) > 1 else b"", answer)
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


_NEVER_ENDED, _ALONE = "the thinking never ended", "it holds thoughts only"

_CHANNEL = re.compile(
    r"<\|channel\|>\s*+(?P<name>\w++)[^<]*+(?:<\|constrain\|>[^<]*+)?<\|message\|>"
    r"|<\|(?P<end>end|return|call)\|>|<\|start\|>\w*+",
)
_SPOKEN_CHANNELS = ("final", None)
_STRIPPED_FINAL = "assistantfinal"
_THOUGHT = re.compile(
    r"<\|channel>thought\b|(?-i:\[THINK\])|(?P<bare_end><channel\|>|(?-i:\[/THINK\]))"
    r"|(?:<\|?|◁)(?P<end>/|end_(?:of_)?)?(?:begin_(?:of_)?|start_(?:of_)?)?(?:\w++:)?"
    r"(?:think(?:ing)?|(?<=_)thought)(?:\|?>|▷)",
    re.IGNORECASE,
)
_AT_THE_BEGINNING = re.compile(r"\s*+<(thoughts?|reasoning|analysis|reflection|scratchpad)>", re.IGNORECASE)


def spoken(text: str, *, tags: bool = True) -> tuple[str, str]:
    """(the text without its thoughts, a complaint if nothing else is in it or the thinking never ended).

    tags: False keeps the thoughts in tags, where these are a field of the answer
    """
    rest, ended = _final_channel(text)
    if tags and ended:
        begun = _AT_THE_BEGINNING.match(rest)
        closing = begun and re.search(f"</{begun[1]}>", rest, re.IGNORECASE)
        if closing:
            rest = rest[closing.end() :]
        rest, ended = _outside_tags(rest)
    if not ended:
        return rest, _NEVER_ENDED
    return rest, _ALONE if rest is not text and not rest.strip() and text.strip() else ""


def _final_channel(text: str) -> tuple[str, bool]:
    """(what is in harmony's final channel or in none, whether the last message of another channel ended)."""
    if "<|channel|>" not in text:
        at = text.rfind(_STRIPPED_FINAL)
        return (text, True) if at < 0 else (text[at + len(_STRIPPED_FINAL) :], True)
    kept, channel, begin = list[str](), None, 0
    for mark in _CHANNEL.finditer(text):
        if channel in _SPOKEN_CHANNELS:
            kept.append(text[begin : mark.start()])
        channel, begin = mark["name"], mark.end()
    if channel in _SPOKEN_CHANNELS:
        kept.append(text[begin:])
    return "".join(kept), channel in _SPOKEN_CHANNELS


def _outside_tags(text: str) -> tuple[str, bool]:
    """(the text outside of thinking tags, whether the last one was closed)."""
    kept, begin, thinking = list[str](), 0, False
    for mark in _THOUGHT.finditer(text):
        if mark["end"] or mark["bare_end"]:  # an end without a beginning: the template opened it inside the prompt
            kept, thinking = (kept if thinking else []), False
            begin = mark.end()
        elif not thinking:
            kept.append(text[begin : mark.start()])
            thinking = True
    return "".join(kept if thinking else [*kept, text[begin:]]), not thinking
