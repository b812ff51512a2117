"""Generated outputs through every reader of what models and servers write; `python -m bench.fuzz` tries 10^5."""

import pytest

from bench.fuzz import Parser, Tally, fuzz, mutate, parsers, try_repetitions


@pytest.mark.long
def test_no_output_crashes_its_reader() -> None:
    tallies = fuzz(3000, seed=7, repetitions=False)
    assert sum(tally.outputs for tally in tallies.values()) >= 2900
    assert {name: tally.crashes for name, tally in tallies.items() if tally.crashes} == {}


@pytest.mark.parametrize("parser", parsers(), ids=lambda parser: parser.name.replace(" ", "-"))
def test_reading_takes_no_quadratic_time(parser: Parser) -> None:
    """No time is asserted: only one that is long is looked at, and only whether it grows with more than the length."""
    tally = Tally()
    try_repetitions(parser, tally, longest=16_384, every=5)
    assert tally.outputs >= 40 and not tally.grows and not tally.crashes


@pytest.mark.long
def test_the_fuzzer_finds_what_is_there_to_be_found() -> None:
    def read(text: str) -> object:
        return [text.count("ab") for _ in range(len(text) // 2)]

    slow, tally = Parser("slow", read, ("aa",)), Tally()
    try_repetitions(slow, tally, longest=16_384, every=1000)
    assert tally.grows
    assert fuzz(50, 1, "moves of a route")["moves of a route"].outputs >= 49
    assert mutate(__import__("random").Random(1), "abc", ("x",)) != "abc"
