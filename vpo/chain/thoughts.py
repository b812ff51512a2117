"""Where a model thinks and where it answers, in the text of a reply.

A server's reasoning parser mostly takes the thoughts out. If it does not, they are in the text, in one of the
forms that the families of models have:

- harmony (gpt-oss): messages in channels, of which `final` is the answer. Servers that drop special tokens leave the
  words `analysis...assistantfinal...` of it
- a tag around the thoughts: <think>, <thinking>, <seed:think>, [THINK], <|START_THINKING|>, <|begin_of_thought|>,
  Gemma's <|channel>thought ... <channel|>. The opening one may be in the prompt
- <thought>, <reasoning>, <analysis>, <reflection>, <scratchpad>: words that an answer may use as well, so they count at
  the beginning of a reply only
"""

from __future__ import annotations

import re

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
