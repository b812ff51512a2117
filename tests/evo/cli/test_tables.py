"""Tables of the command line: whole names at any width."""

from evo.cli.tables import draw_table

TITLES = ("run", "groups", "policy")
ROWS = [("calm-lake", "12", "embedded:base"), ("duel/best-of-n/s0", "7", "embedded:base and a policy of many words")]


def draw(width):
    return draw_table(TITLES, ROWS, right=("groups",), width=width)


def test_a_table_is_whole_where_nothing_limits_it():
    head, first, second = draw(None)
    assert head == "run                groups  policy"
    assert first == "calm-lake              12  embedded:base"
    assert second.endswith("  embedded:base and a policy of many words") and not any(
        line.endswith(" ") for line in (head, first)
    )


def test_the_last_column_is_wrapped_by_words_beside_the_others():
    lines = draw(55)
    assert max(map(len, lines)) <= 55 and len(lines) == 4
    assert lines[2].endswith("embedded:base and a policy") and lines[3].strip() == "of many words"
    assert lines[3].index("of many") == lines[0].index("policy")


def test_it_stands_below_its_row_where_the_others_leave_no_room():
    assert draw(40) == [
        "run                groups", "    policy", "calm-lake              12", "    embedded:base",
        "duel/best-of-n/s0       7", "    embedded:base and a policy of many", "    words",
    ]  # fmt: skip


def test_a_hostile_text_is_one_harmless_line():
    lines = draw_table(("a", "b"), [("x\x1b[2J", "one\ntwo")])
    assert lines[1] == "x·[2J  one two"


def test_a_wide_name_takes_two_columns_a_character():
    head, row = draw_table(("run", "best"), [("日本", "1")], width=80)
    assert head == "run   best" and row == "日本  1"
