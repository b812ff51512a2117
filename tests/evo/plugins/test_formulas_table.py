"""Tables as R, pandas, spreadsheets and loggers write them: which columns are variables, and which number a cell is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.rows import yaml_rows

from evo.plugins.formulas.table import BadTable, read_table

DOSE = [1.5, 2.8, 1.0, 3.3, 2.1, 4.4, 0.7, 5.0, 3.9, 2.6, 1.9, 4.1]
AGE = [22, 20, 32, 41, 25, 33, 29, 47, 38, 26, 31, 44]
RESPONSE = [round(3 * d**0.5 + 0.05 * a, 4) for d, a in zip(DOSE, AGE, strict=True)]
IN_ORDER, WITH_GAPS, SHUFFLED = (
    list(range(1, 13)),
    [85, 86, 87, 91, 92, 94, 95, 96, 100, 101, 102, 107],
    [7, 3, 12, 1, 9, 2, 11, 4, 10, 5, 8, 6],
)
FALLING = list(range(12, 0, -1))


@pytest.fixture
def read(tmp_path):
    """The table of a text, or of a function that writes a file."""

    def open_table(written, target="response", name="table.csv", **options):
        path = tmp_path / name
        written(path) if callable(written) else path.write_text(written, encoding="utf-8")
        return read_table(path, target, least=2, **options)

    return open_table


def lines(head, *columns, delimiter=","):
    rows = [head, *(delimiter.join(map(str, row)) for row in zip(*columns, strict=True))]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    "numbers", [IN_ORDER, WITH_GAPS, SHUFFLED, FALLING], ids=["order", "gaps", "shuffled", "falling"]
)
@pytest.mark.parametrize(
    "head", ["", "Unnamed: 0", "Unnamed: 0.1", "rownames", "row.names", "row_name", "X", "...1", "index", "level_0"]
)
def test_names_of_rows_are_no_variable(read, head, numbers):
    table = read(lines(f"{head},dose,age,response", numbers, DOSE, AGE, RESPONSE))
    assert table.names == ("dose", "age")
    assert any("it names the rows; name it in --columns to keep it" in note for note in table.notes)
    kept = read(lines(f"{head},dose,age,response", numbers, DOSE, AGE, RESPONSE), columns=[head or "x1", "age"])
    assert len(kept.names) == 2 and kept.x[:, 0].tolist() == numbers


@pytest.mark.parametrize("head", ["Messung Nr", "id", "trial", "case no"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_counts_the_rows_is_no_variable(read, head, first):
    counted = [first + row for row in range(12)]
    table = read(lines(f"dose,age,{head},response", DOSE, AGE, counted, RESPONSE))
    assert table.names == ("dose", "age") and any("numbers the rows" in note for note in table.notes)


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("t,dose", (IN_ORDER, DOSE)),  # measured so
        ("day,dose", (IN_ORDER, DOSE)),
        ("run [s],dose", (IN_ORDER, DOSE)),
        ("X", (SHUFFLED,)),  # nothing else is left
        ("trial", (IN_ORDER,)),
        ("count,dose", (WITH_GAPS, DOSE)),  # a name of its own, and no count of rows
        ("dose,X", (DOSE, SHUFFLED)),  # not the first
        ("X,dose", ([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6], DOSE)),  # values again
        ("index,dose", ([0.5 + row for row in range(12)], DOSE)),
    ],
)
def test_a_variable_stays(read, head, columns):
    table = read(lines(f"{head},response", *columns, RESPONSE))
    assert len(table.names) == len(columns)


@pytest.mark.parametrize("delimiter", [" ", "\t", ","])
@pytest.mark.parametrize("names", [WITH_GAPS, [f"case {n}" for n in IN_ORDER]])
def test_a_header_that_is_a_cell_shorter_means_row_names(read, delimiter, names):
    quoted = [f'"{name}"' for name in names]
    head = delimiter.join(['"dose"', '"age"', '"response"'])
    table = read(lines(head, quoted, DOSE, AGE, RESPONSE, delimiter=delimiter))
    assert table.names == ("dose", "age") and table.x[:, 0].tolist() == DOSE


def test_a_delimiter_at_the_end_of_each_row_is_no_name_of_a_row(read):
    table = read(lines("dose,age,response", DOSE, AGE, [f"{value}," for value in RESPONSE]))
    assert table.names == ("dose", "age") and table.x[:, 0].tolist() == DOSE and table.y.tolist() == RESPONSE


def test_a_frame_printed_as_text_is_read(read):
    frame = pd.DataFrame({"dose": DOSE, "age": AGE, "response": RESPONSE})
    table = read(frame[frame.age != 32].to_string())
    assert table.names == ("dose", "age") and table.rows == 11


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame,
        lambda frame: frame[frame.age > 25],
        lambda frame: frame.sample(frac=1, random_state=1),
        lambda frame: frame.rename_axis("id")[frame.age > 25],
        lambda frame: frame.set_index(frame.index * 3 + 1),
        lambda frame: frame.set_index([frame.index * 2, frame.index % 3]),
    ],
)
def test_an_index_in_parquet_is_no_variable(read, make):
    frame = make(pd.DataFrame({"dose": DOSE, "age": AGE, "response": RESPONSE}))
    table = read(lambda path: frame.to_parquet(path), name="table.parquet")
    assert table.names == ("dose", "age") and table.x[:, 0].tolist() == frame.dose.tolist()


def test_a_cell_is_the_same_in_parquet_and_csv(read):
    columns = {
        "large": [str(2**53 + 2 * row + 1) for row in range(12)],
        "loose": [" 1.5", "2 ", "1e3", "NA", "", "n/a", "-", "4", "5", "6", "7", "8"],
        "words": ["a", "b", "c", "d", "e", "f", "1", "2", "3", "4", "5", "6"],
        "response": [str(value) for value in RESPONSE],
    }
    frame = pd.DataFrame(columns)
    whole = frame.assign(large=[int(cell) for cell in columns["large"]])
    read_csv = read(lambda path: frame.to_csv(path, index=False), drop_missing=True)
    for each in (frame, whole):
        table = read(lambda path, each=each: each.to_parquet(path), name="t.parquet", drop_missing=True)
        assert table.names == read_csv.names == ("large", "loose")
        assert np.array_equal(table.x, read_csv.x) and table.rows == read_csv.rows
    assert read_csv.x[0].tolist() == [float(2**53 + 1), 1.5]


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize(("cells", "numbers", "note"), yaml_rows(__file__, "commas_mean_one_thing_in_a_file"))
def test_commas_mean_one_thing_in_a_file(read, delimiter, cells, numbers, note):
    table = read(lines(f"size{delimiter}response", cells, [1, 2, 3, 5], delimiter=delimiter))
    assert table.x[:, 0].tolist() == numbers and any(note in found for found in table.notes)


def test_what_a_comma_is_is_told_by_another_column_or_a_quote_or_refused(read):
    thousands = ["1,817", "2,372", "3,111"]
    told = read(lines("size;dose;response", thousands, ["0,5", "1,5", "2,5"], [1, 2, 3], delimiter=";"))
    assert told.x.tolist() == [[1.817, 0.5], [2.372, 1.5], [3.111, 2.5]]
    quoted = read(lines("size,response", ['"1,817"', "646", '"2,372"'], [1, 2, 3]))
    assert quoted.x[:, 0].tolist() == [1817, 646, 2372]
    with pytest.raises(BadTable, match="1,817 in line 2 of 'size' may be 1817 or 1.817; write it without the comma"):
        read(lines("size;response", thousands, [1, 2, 3], delimiter=";"))


def test_a_sign_of_comments_inside_a_cell_is_a_part_of_it_and_lines_that_are_all_comments_are_named(read):
    table = read(lines("load,response,bars", [1, 2, 3], [1.25, 1.667, 1.875], ["2 #4", "3 #5", "4 #6"]))
    assert table.names == ("load",) and "Left out bars: text, such as '2 #4' in line 2." in table.notes
    spaced = read("load response # kg\n1 1.25 # first\n2 1.667\n3 1.875 # last\n")
    assert spaced.names == ("load",) and spaced.y.tolist() == [1.25, 1.667, 1.875]
    with pytest.raises(BadTable, match="all lines below the header begin with #, which makes them comments"):
        read(lines("ticket,hours,response", ["#1", "#2", "#3"], [0.5, 1, 1.5], [5.1, 8.2, 11.3]))
