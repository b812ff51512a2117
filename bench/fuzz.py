"""Generated outputs through every parser of what models and servers write: no crash, and no output that takes long.

    python -m bench.fuzz [--outputs 100000] [--seed 0] [--only WORD] [--no-repetitions] [--json]

Half of the outputs are texts that a parser accepts with bytes, words and stretches of them changed, doubled, moved,
repeated up to the length that is read at all; half of the rest are such texts as bytes with bytes changed; the others
are hypothesis' texts. An output that takes more than 50 ms of CPU is read again twice and counted where the fastest of
the three still does. Every seed and every word is also repeated to four lengths, each twice the one before: a reader
whose time grows more than threefold at each doubling is quadratic or worse.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from problems.contract import Problem
from problems.identity import identity
from problems.maze.board import UnreadableRoute, parse_moves
from problems.openevolve.evolve_block import NotSpliceable, splice
from problems.programs.cases import same_output
from problems.python_syntax import code_features, strip_fence
from problems.redaction import redact
from problems.registry import families, resolve
from vpo.chain import parse_chain, write_edits
from vpo.languages.contract import dialect_names, open_dialect
from vpo.servers.client import read_json
from vpo.servers.replies import Unreadable, read_reply

PARENT = """# EVOLVE-BLOCK-START
def area(a, b):
    \"\"\"The area.\"\"\"
    total = 0
    for i in range(a):
        total += b
    return total
# EVOLVE-BLOCK-END
print(area(2, 3))
"""
_PROGRAM = "```python\ndef f(x):\n    # twice\n    return x + x\n```\n---\n"
_PROGRAM += "```py\nclass A:\n    def g(self): return {1: [2]}\n```"
_EDIT = "<<<<<<< SEARCH\n    total = 0\n=======\n    total = 1\n>>>>>>> REPLACE\n"
_TEXTS = "<think>so</think><answer_1>ab 12</answer_1>\n<answer_2>x\ny</answer_2> <answer_3>z</answer_3>"
_ROUTES = "<route_1>RRDDLU</route_1> <route_2>R, D, D</route_2><route_3>right down left</route_3>"
_FIELDS = (
    "<think>a</think><citations>P1, P3</citations><answer>John</answer>",
    '<tool_call>\n{"name": "book", "parameters": {"day": "Monday", "n": [1, 2.5, null]}}\n</tool_call>',
    "<response_1><think>because</think><names>BRCA1, TP53</names></response_1><response_2><answer>x</answer>",
    "<genes>BRCA1; TP53</genes> <answer>42</answer> **final** \\boxed{7}",
)
_REPLY = json.dumps(
    {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "x = 1"},
                "finish_reason": "stop",
                "token_ids": [1, 2, 3],
                "logprobs": {"content": [{"token": "x", "logprob": -0.5, "top_logprobs": []}] * 3},
            }
        ],
        "prompt_token_ids": [1, 2],
        "usage": {"prompt_tokens": 2, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}},
    }
)
WORDS = (
    *("```", "```python\n", "~~~", "---\n", "\n\n", "\r\n", "\t", " " * 40, "<think>", "</think>", "</answer_1>"),
    *("<answer_1>", "<route_1>", "</route_1>", "<response_1>", "<tool_call>", "</tool_call>", "<answer>", "</answer>"),
    *("<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n", "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n"),
    *("def f(x):\n", "    return ", "class A:\n", "if __name__ == '__main__':\n", "lambda: ", "# Program 2: ", '"""'),
    *("(" * 30, "[" * 30, "{" * 30, ")", "]", "}", "'", '"', "\\", "\\x", "\\N{DASH}", "f'{f'{1}'}'", "0x", "1e9999"),
    *("-" * 50, "=" * 50, "<" * 50, "1" * 500, "~" * 50, "not " * 20, "x." * 30, "@" * 30, "://a:" * 9, "Bearer "),
    *("\0", "\ufeff", "\ud800", "\udfff", "\u202e", "\u2028", "\x85", "\x0c", "İ", "ﬁ", "😀", "\U0010ffff", "e\u0301"),
    *("null", "NaN", "Infinity", "true", '{"a":', "[1,", "<|im_end|>", "<s>", "R", "D, ", "right ", "P1", "e2", "m3"),
)
"""What the mutations put in beside bytes: what any of the grammars has a meaning for, and what breaks readers."""


@dataclass(frozen=True)
class Parser:
    """read: never raises, whatever the text; seeds: texts that it makes something of"""

    name: str
    read: Callable[[str], object]
    seeds: tuple[str, ...]


def _chain(answer_format: str, answers: int, **options: object) -> Callable[[str], object]:
    return lambda text: parse_chain(text, answer_format, answers, truncated=len(text) % 2 == 0, **options)  # type: ignore[arg-type]


def _refusing(read: Callable[[str], object], *refusals: type[Exception]) -> Callable[[str], object]:
    """A reader whose own words for no are no crash."""

    def reading(text: str) -> object:
        with contextlib.suppress(*refusals):
            return read(text)
        return None

    return reading


def _reply(text: str) -> object:
    with contextlib.suppress(Unreadable):
        return read_reply(read_json(text))
    return None


def _scored(problem: Problem) -> Callable[[str], object]:
    return lambda text: problem.score(text).check(problem)


def parsers() -> list[Parser]:
    """All of them, each once."""
    chain_seeds = {
        "python": (_PROGRAM, "```\n" + PARENT + "```", PARENT, "<answer_1>" + PARENT + "</answer_1>", _EDIT),
        "text": (_TEXTS, "a plain text", _PROGRAM),
        "route": (_ROUTES, "RRDD"),
        "tagged": (*_FIELDS, _TEXTS),
    }
    found = [
        Parser(f"chain of {answers}, {kind}", _chain(kind, answers), seeds)
        for kind, seeds in chain_seeds.items()
        for answers in (1, 3)
    ]
    edits = (_EDIT, write_edits(PARENT, PARENT.replace("total", "s")), _PROGRAM)
    found.append(Parser("edits of a program", _chain("python", 1, diff_parent=PARENT), edits))
    found.append(Parser("edits of a text", _chain("text", 1, diff_parent=PARENT), edits))
    examples = [family.example for family in families() if family.example]
    for address in ("maze:compromise/0", *examples):
        problem = resolve(address)[0]
        seeds = (problem.seed_answer() or "RRDD", *_FIELDS, "RRDDLLUU")
        found.append(Parser(f"answers of {address.split('/')[0]}", _scored(problem), seeds))
        for name in sorted(dialect_names()):
            dialect = open_dialect(name)
            if dialect.understands(problem) and not address.startswith("maze:comp"):
                prompt = dialect.prompt(problem, "", 2)
                words = " ".join(dialect.vocabulary()[:60])
                reads = _chain(dialect.answer_format, 3, prompt_format=name, prompt=prompt)
                found.append(Parser(f"chain in {name}", reads, (words, prompt, words[::2])))
    marked = (PARENT, "def area(a, b):\n    return a * b\n", f"```python\n{PARENT}```")
    found += [
        Parser("EVOLVE-BLOCKs", _refusing(lambda text: splice(PARENT, strip_fence(text)), NotSpliceable), marked),
        Parser("code fences", lambda text: strip_fence(text, wanted="area"), (_PROGRAM, *marked)),
        Parser("features of programs", code_features, (PARENT, "x = [1, 2]\n")),
        Parser(
            "identities", lambda text: [identity(text, kind) for kind in ("python", "text", "route", "tagged")], marked
        ),
        Parser("moves of a route", _refusing(parse_moves, UnreadableRoute), ("RRDD", "right, down", "R\nD")),
        Parser("outputs of programs", lambda text: same_output(text, "1 2.50\nyes\n"), ("1 2.5\nYES", "0.1\n" * 9)),
        Parser("replies of servers", _reply, (_REPLY, '{"error": {"message": "no"}}', "[]")),
        Parser("hidden secrets", redact, ("postgresql://u:p@h/d http://a@b?key=c Bearer aaaaaaaaaaaaaaaaaaaa", _REPLY)),
    ]
    return found


LIMIT = 0.05
"""Seconds of CPU for one output."""
LONGEST = 65_536
GROWTH = 3.0


@dataclass
class Tally:
    """What became of one parser's outputs. crashes: what raised, with the text; slow: seconds, with the text;
    grows: texts whose repetitions take quadratic time"""

    outputs: int = 0
    crashes: list[tuple[str, str]] = field(default_factory=list)
    slow: list[tuple[float, str]] = field(default_factory=list)
    grows: list[tuple[list[float], str]] = field(default_factory=list)
    worst: float = 0.0


def cpu_seconds(parser: Parser, text: str) -> float:
    begun = time.thread_time()
    parser.read(text)
    return time.thread_time() - begun


def try_output(parser: Parser, text: str, tally: Tally) -> None:
    """Read one output, and count what comes of it."""
    tally.outputs += 1
    try:
        took = cpu_seconds(parser, text)
        if took > LIMIT:  # a switch to another process leaves cold caches behind, which are none of the reader's doing
            took = min(took, cpu_seconds(parser, text), cpu_seconds(parser, text))
    except (Exception, RecursionError) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        tally.crashes.append((f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"[:300], text[:2000]))
        return
    tally.worst = max(tally.worst, took)
    if took > LIMIT:
        tally.slow.append((took, text))


def mutate(rng: random.Random, text: str, others: tuple[str, ...]) -> str:
    """The text after one to eight changes."""
    for _ in range(rng.randint(1, 8)):
        a, b = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        match rng.randrange(8):
            case 0:
                text = text[:a] + text[b:]
            case 1:
                text = text[:a] + rng.choice(WORDS) + text[a:]
            case 2:
                text = text[:a] + text[a:b] * rng.choice((2, 3, 50)) + text[b:]
            case 3:
                text = text[:a] + rng.choice(WORDS) * rng.choice((2, 40, 2000)) + text[b:]
            case 4:
                text = text[:a]
            case 5:
                text = text[:a] + rng.choice(others) + text[b:]
            case 6:
                text = text[b:] + text[a:b] + text[:a]
            case _:
                text = text[:a] + chr(rng.choice((rng.randrange(128), rng.randrange(0x110000)))) + text[a + 1 :]
        text = text[: 2 * LONGEST]
    return text


def flip(rng: random.Random, text: str) -> str:
    """The text as bytes with some changed, as a stream that was cut or damaged would be read."""
    data = bytearray(text.encode("utf-8", "replace"))
    for _ in range(rng.randint(1, 12)):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data).decode("utf-8", rng.choice(("replace", "ignore", "surrogateescape")))


def outputs(parser: Parser, count: int, seed: int, others: tuple[str, ...]) -> Iterator[str]:
    """Three quarters of them; the rest are hypothesis' (try_texts)."""
    rng = random.Random(f"{seed} {parser.name}")
    for turn in range(count):
        text = mutate(rng, rng.choice(parser.seeds), others)
        yield flip(rng, text) if turn % 3 == 2 else text


def try_texts(parser: Parser, count: int, seed: int, tally: Tally) -> None:
    """Texts that hypothesis makes: of all characters, and of the words of the grammars."""
    pieces = st.one_of(st.text(st.characters(codec=None), max_size=40), st.sampled_from(WORDS))

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(pieces, max_size=30).map("".join))
    def trying(text: str) -> None:
        if tally.outputs < wanted:
            try_output(parser, text, tally)

    wanted = tally.outputs + count
    trying()


def try_repetitions(parser: Parser, tally: Tally, longest: int = LONGEST, every: int = 1) -> None:
    """Whether time grows faster than length. Times below a few milliseconds say nothing of that. every: n-th text"""
    for text in (*parser.seeds, *WORDS)[::every]:
        sizes = [longest // 8, longest // 4, longest // 2, longest - 1]
        try:
            times = [math.inf] * len(sizes)
            for _ in range(7):  # a burst of other work slows a stretch of readings: each round reads all sizes
                if times[-1] > LIMIT:
                    times = [
                        min(t, cpu_seconds(parser, text * (n // len(text)))) for t, n in zip(times, sizes, strict=True)
                    ]
        except (Exception, RecursionError) as error:
            tally.crashes.append((f"{type(error).__name__}: {error}"[:300], f"{text!r}, repeated"))
            continue
        tally.outputs += len(sizes)
        tally.worst = max(tally.worst, times[-1])
        if times[-1] > LIMIT:
            tally.slow.append((times[-1], f"{text[:80]!r}, repeated to {longest}"))
        if times[-1] > LIMIT and all(late > GROWTH * early for early, late in zip(times[1:], times[2:], strict=False)):
            tally.grows.append((times, f"{text[:80]!r}, repeated to {longest}"))


def fuzz(count: int, seed: int, only: str = "", repetitions: bool = True) -> dict[str, Tally]:
    """`count` outputs over all parsers, evenly. only: a part of the names of those that are wanted."""
    found = [parser for parser in parsers() if only in parser.name]
    others = tuple(text for parser in found for text in parser.seeds)
    tallies = {parser.name: Tally() for parser in found}
    warnings.simplefilter("ignore", SyntaxWarning)
    for place, parser in enumerate(found):
        tally = tallies[parser.name]
        share = count // len(found) + (place < count % len(found))
        for text in outputs(parser, share - share // 4, seed, others):
            try_output(parser, text, tally)
        try_texts(parser, share // 4, seed, tally)
        if repetitions:
            try_repetitions(parser, tally)
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--no-repetitions", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tallies = fuzz(options.outputs, options.seed, options.only, not options.no_repetitions)
    if options.json:
        print(json.dumps({name: vars(tally) for name, tally in tallies.items()}))
        return
    print(f"{'':36}{'outputs':>9}{'crashes':>9}{'> 50 ms':>9}{'quadratic':>11}{'worst ms':>10}")
    for name, one in tallies.items():
        counts = f"{len(one.crashes):9}{len(one.slow):9}{len(one.grows):11}{1000 * one.worst:10.1f}"
        print(f"{name:36}{one.outputs:9}{counts}")
        for what, text in one.crashes[:3]:
            print(f"    {what}\n      {text[:200]!r}")
        for seconds, text in sorted(one.slow, reverse=True)[:2]:
            print(f"    {1000 * seconds:.0f} ms: {len(text)} characters, {text[:100]!r}")
    total = sum(one.outputs for one in tallies.values())
    print(f"{total} outputs, {sum(len(one.crashes) for one in tallies.values())} crashes")


if __name__ == "__main__":
    main()
