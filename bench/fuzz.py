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
import json
import math
import random
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from bench.fuzz_parsers import WORDS, Parser, parsers

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
