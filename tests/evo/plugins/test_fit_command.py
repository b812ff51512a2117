"""`evo fit`: tables as programs write them, read and refused; fits saved, resumed and printed."""

from __future__ import annotations

import json
import signal
import sys

import numpy as np
import pandas as pd
import pytest
from support.command_line import refused
from support.rows import yaml_rows

from evo.cli import invoke
from evo.plugins.formulas import command, fit
from evo.plugins.formulas.command import _count
from evo.plugins.formulas.fit import begin_fit, load_fit, run_fit
from evo.plugins.formulas.table import BadTable, read_table
from evo.plugins.formulas.writing import to_sympy

FEW = ["--evaluations", "300", "--plain"]


@pytest.fixture
def energy(here):
    """A table of kinetic energies with units, a text column and an index without a name."""
    rng = np.random.default_rng(0)
    mass, speed = rng.uniform(1, 5, (2, 60)).round(4)
    lines = [",mass [kg],top speed [m/s],who,energy [J]"]
    for k in range(60):
        lines.append(f"{k},{mass[k]},{speed[k]},r{k},{0.5 * mass[k] * speed[k] ** 2 + rng.normal(0, 0.05):.5f}")
    (here / "energy.csv").write_text("\n".join(lines) + "\n")
    return here / "energy.csv"


def write(path, head, rows, delimiter=","):
    path.write_text("\n".join(delimiter.join(map(str, row)) for row in ([head] if head else []) + rows) + "\n")


ROWS = [[round(0.3 + k * 0.7 % 2.1, 3), k * k % 11, k % 7] for k in range(24)]


def test_a_law_is_found_saved_and_printed_in_every_form(energy, capsys):
    assert invoke(["fit", "energy.csv", "--target", "energy", "--units", "header", *FEW]) == 0
    printed = capsys.readouterr().out
    assert "Renamed 'top speed' to top_speed." in printed and "Left out who: text, such as 'r0' in line 2." in printed
    assert "Left out column 1 (x1): it names the rows; name it in --columns to keep it." in printed
    assert "48 rows fitted, 12 held out" in printed and "held-out R2" in printed
    assert "mass*top_speed**2" in printed
    saved = load_fit("energy-energy")[0]
    assert saved.recommended.r2 > 0.999 and saved.recommended.test_r2 > 0.999

    def shown(form, row="best"):
        assert invoke(["fit", "show", "energy-energy", "--row", row, "--as", form]) == 0
        return capsys.readouterr().out

    assert shown("text").strip() == saved.recommended.equation
    assert shown("latex").startswith("\\mathrm{energy} = ")
    assert "top_speed**2" in shown("sympy")
    made = {}
    exec(shown("python"), made)
    x = np.array([[2.0, 3.0]])
    assert made["energy"](*x.T)[0] == pytest.approx(saved.recommended(x)[0])
    assert made["energy"](*x.T)[0] == pytest.approx(9.0, rel=0.02)
    assert json.loads(shown("json"))["test_r2"] == saved.recommended.test_r2
    assert len(shown("text", "all").splitlines()) == len(saved.rows)
    assert "Row 1: energy = " in shown("table", "1")
    made = {}
    exec(shown("python", "all"), made)  # each row under a name of its own
    assert [name for name in made if name.startswith("energy_")] == [f"energy_{k + 1}" for k in range(len(saved.rows))]
    assert invoke(["fit", "show", "energy energy"]) == 0 and "score" in capsys.readouterr().out
    assert invoke(["fit", "show"]) == 0 and "energy-energy" in capsys.readouterr().out
    assert invoke(["fit", "show", "energy-energy", "--row", "99"]) == 2
    assert "has the rows 1 to" in capsys.readouterr().err


NAMES = ("S", "N", "Q", "O", "beta", "gamma", "zeta", "test", "re", "sign", "exp", "max", "I", "E1", "lambda_", "abs")


@pytest.mark.parametrize("name", NAMES)
def test_sympy_reads_back_what_is_printed_with_any_name(here, capsys, name):
    sympy = pytest.importorskip("sympy")
    write(here / "data.csv", [name, "x", "y"], [[row[0], row[2], round(2.5 * row[0] + row[2], 3)] for row in ROWS])
    guess = f"1.5*{name} + x/3 + exp({name})"
    assert invoke(["fit", "data.csv", "-y", "y", "--name", "fit", "--guess", guess, "--evaluations", "20"]) == 0
    capsys.readouterr()
    assert invoke(["fit", "show", "fit", "--row", "all", "--as", "sympy"]) == 0
    printed = capsys.readouterr().out.splitlines()
    saved = load_fit("fit")[0]
    symbols = {sympy.Symbol(name), sympy.Symbol("x")}
    read = [sympy.sympify(line) for line in printed]
    assert any(sympy.Symbol(name) in each.free_symbols for each in read)
    for each, row in zip(read, saved.rows, strict=True):
        assert each.free_symbols <= symbols
        assert each == to_sympy(row.formula, row.names, real=False, digits=15)
        assert float(each.subs({sympy.Symbol(name): 1.25, sympy.Symbol("x"): 3})) == pytest.approx(row([[1.25, 3]])[0])


def test_one_seed_and_budget_give_one_front_and_a_resume_keeps_it(energy, capsys):
    for name in ("one", "two"):
        assert invoke(["fit", "energy.csv", "-y", "energy", "--name", name, "--json", *FEW]) == 0
    one, two = (json.loads(line)["rows"] for line in capsys.readouterr().out.splitlines())
    assert one == two
    assert invoke(["fit", "--resume", "one", "--evaluations", "40", "--plain"]) == 0
    resumed = load_fit("one")[0]
    assert [session.stopped for session in resumed.sessions] == ["evaluations", "evaluations"]
    for row in one:
        assert min(r.loss for r in resumed.rows if r.complexity <= row["complexity"]) <= row["loss"]
    energy.write_text(energy.read_text() + "61,1,1,r,1\n")
    capsys.readouterr()
    assert invoke(["fit", "--resume", "one"]) == 2
    assert "has changed since" in capsys.readouterr().err
    assert invoke(["fit", "energy.csv", "-y", "energy", "--name", "one"]) == 2


def test_a_killed_fit_keeps_its_last_tick(energy, monkeypatch):
    monkeypatch.setattr(fit, "SAVE_SECONDS", 0.0)
    settings = fit.FitSettings("energy", seconds=600)
    saved, parts = begin_fit(energy, settings, None, {})
    seen = []

    def killed(now):
        seen.append(now)
        if len(now.rows) > 1:
            raise SystemExit

    with pytest.raises(SystemExit):
        run_fit(saved, parts, fit.FITS_FOLDER / "energy-energy.json", killed)
    left = load_fit("energy-energy")[0]
    assert left.rows == seen[-1].rows and left.sessions[-1].stopped == ""
    assert invoke(["fit", "--resume", "energy-energy", "--plain", "--evaluations", "40"]) == 0
    assert len(load_fit("energy-energy")[0].sessions) == 2


def test_an_interrupt_ends_the_search_and_keeps_the_front(energy, monkeypatch, capsys):
    line = command.progress_line

    def interrupted(now):
        signal.raise_signal(signal.SIGINT)
        return line(now)

    monkeypatch.setattr(command, "progress_line", interrupted)
    assert invoke(["fit", "energy.csv", "-y", "energy", "--seconds", "600", "--plain"]) == 130
    assert load_fit("energy-energy")[0].sessions[-1].stopped == "callback" and "Interrupted;" in capsys.readouterr().out


@pytest.mark.parametrize(("file", "arguments", "message"), yaml_rows(__file__, "bad_input_is_one_line"))
def test_bad_input_is_one_line(here, capsys, file, arguments, message):
    """file: its head, the form of a row of ROWS, lines before and after them, and how many rows there are"""
    rows = [file.get("form", "{0},{1},{2}").format(*row) for row in ROWS[: file.get("rows")]]
    lines = [file.get("head", "a,b,y"), *file.get("before", ()), *rows, *file.get("after", ())]
    (here / "data.csv").write_text("\n".join(line for line in lines if line))
    assert message in refused(capsys, "fit", "data.csv", *arguments, *FEW)
    assert not (here / "fits").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [("none.csv", None), ("data.csv", bytes(range(256)) * 9), ("data.parquet", b"PAR1"), ("data.csv", b"\n \n")],
)
def test_a_file_that_is_no_table_is_one_line(here, capsys, name, content):
    if content is not None:
        (here / name).write_bytes(content)
    assert refused(capsys, "fit", name, "-y", "y")


def test_tables_are_read_in_several_forms(here):
    path = here / "data.csv"
    write(path, None, ROWS, "\t")
    tabs = read_table(path, "x3", header=False)
    assert tabs.names == ("x1", "x2") and tabs.y.tolist() == [row[2] for row in ROWS]
    write(path, ["a b", "a-b", "y"], [["", 1, 2], *ROWS], "  ")
    with pytest.raises(BadTable):  # blanks separate names too
        read_table(path, "y")
    write(path, ["a b", "a-b", "y"], [["", 1, 2], *ROWS])
    dropped = read_table(path, "y", drop_missing=True)
    assert dropped.names == ("a_b", "a_b_2") and len(dropped.y) == len(ROWS)
    assert any("1 of 25 rows" in note for note in dropped.notes)
    write(path, ["p [bar]", "p [Pa]", "q (m s-1)"], ROWS)
    pressures = read_table(path, "q")
    assert pressures.names == ("p_bar", "p_Pa") and pressures.units == ("bar", "Pa", "m s-1")


def test_a_fit_is_whole_in_units_of_any_size_and_in_the_names_of_the_file(here, capsys):
    rows = [[f"{row[0]}e-149", row[1] + 1, f"{7 * row[0] / (row[1] + 1)}e150"] for row in ROWS]
    write(here / "data.csv", ["flow (m3/h)", "T-0 [°C]", "y (%)"], rows)
    given = ["-y", "y (%)", "--units", "flow=m3/h,T-0=°C", "--guess", "2.0*flow (m3/h)/T-0", "--name", "large"]
    assert invoke(["fit", "data.csv", *given, *FEW]) == 0
    assert invoke(["fit", "--resume", "large", *FEW]) == 0
    printed = capsys.readouterr().out
    assert "Recommended: y = 7e+299*flow/T_0" in printed and "°C and °F count as units of their own" in printed
    row = load_fit("large")[0].recommended
    assert row.test_r2 > 0.999999 and row.complexity == 5
    made = {}
    exec(row.python(), made)
    x = np.array([[3e-149, 2.0], [1e-150, 5.0]])
    assert made["f"](*x.T).tolist() == row(x).tolist()


def test_long_tables_are_sampled_and_parquet_is_read(here, monkeypatch, capsys):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"a": [row[0] for row in ROWS] * 5, "t": ["x"] * 120, "y": [row[2] for row in ROWS] * 5}
    parquet.write_table(arrow.table(columns), here / "data.parquet")
    sampled = read_table(here / "data.parquet", "y", most=50)
    assert len(sampled.y) == 50 and sampled.rows == 120 and sampled.names == ("a",)
    assert "Drew 50 of 120 rows at random (seed 0)." in sampled.notes
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert invoke(["fit", "data.parquet", "-y", "y"]) == 2
    assert "needs pyarrow: pip install" in capsys.readouterr().err


NUMBERS = [(3.5, 3.25, 3.75), (3.5, 1.0, 9.5)] + [(k + 0.5, k * k % 7, 2.0 * k) for k in range(10)]
LINES = [" ".join(map(str, row)) for row in NUMBERS]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(["# a b y", *LINES]),  # numpy.savetxt's header
        "\n".join(["# measured on Monday", "a b y", *LINES[:4], "# 16 40 17.28", *LINES[4:]]),
        "\n".join(["# 16 40 17.28", "# a b y", "# in metres", *LINES[:4], LINES[4] + "  # a bad day", *LINES[5:]]),
        "\r\n".join(["sep=;", "a;b;y", *(line.replace(" ", ";").replace(".", ",") for line in LINES)]),  # Excel's
        "\r".join(["a\tb\ty", *(line.replace(" ", "\t") for line in LINES)]),
    ],
    ids=["savetxt", "comments", "comments of numpy", "excel", "old mac"],
)
def test_comments_and_the_forms_of_other_programs_are_read(here, text):
    (here / "data.csv").write_bytes(text.encode())
    read = read_table(here / "data.csv", "y")
    assert read.names == ("a", "b") and np.column_stack([read.x, read.y]).tolist() == [list(row) for row in NUMBERS]


def test_one_evaluation_is_no_evaluations():
    assert [_count(number, "row") for number in (0, 1, 2, 1000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]


@pytest.mark.parametrize("package, options", [("matplotlib", ("--plot", "p.png")), ("sympy", ("--as", "sympy"))])
def test_an_extra_that_is_missing_is_named_before_the_work(energy, capsys, monkeypatch, package, options):
    assert invoke(["fit", "energy.csv", "-y", "energy", "--name", "kept", *FEW]) == 0
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, package, None)
    commands = [["fit", "show", "kept"], ["fit", "energy.csv", "-y", "energy", "--name", "other", *FEW]]
    for words in commands if options[0] == "--plot" else commands[:1]:
        assert f"needs {package}: pip install 'evo-search[formulas]'" in refused(capsys, *words, *options)
    assert fit.list_fits() == ["kept"]


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
