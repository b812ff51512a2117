"""`evo fit`: tables read and refused, fits saved, resumed and printed."""

import json
import signal
import sys

import numpy as np
import pytest
from support.command_line import refused
from support.rows import yaml_rows

from evo.cli import invoke
from evo.plugins.formulas import command, fit, table
from evo.plugins.formulas.command import _count
from evo.plugins.formulas.fit import begin_fit, load_fit, run_fit
from evo.plugins.formulas.table import read_table
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
    goal = [row[2] for row in ROWS]
    write(path, ["my a", "lambda", "y"], [[str(row[0]).replace(".", ","), *row[1:]] for row in ROWS], ";")
    semicolons = read_table(path, "y")
    assert semicolons.names == ("my_a", "lambda_") and semicolons.x[:, 0].tolist() == [row[0] for row in ROWS]
    write(path, None, ROWS, "\t")
    tabs = read_table(path, "x3", header=False)
    assert tabs.names == ("x1", "x2") and tabs.y.tolist() == goal
    write(path, ["a b", "a-b", "y"], [["", 1, 2], *ROWS], "  ")
    with pytest.raises(table.BadTable):  # blanks separate names too
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


@pytest.mark.parametrize("package, options", [("matplotlib", ("--plot", "p.png")), ("sympy", ("--as", "sympy"))])
def test_an_extra_that_is_missing_is_named_before_the_work(energy, capsys, monkeypatch, package, options):
    assert invoke(["fit", "energy.csv", "-y", "energy", "--name", "kept", *FEW]) == 0
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, package, None)
    commands = [["fit", "show", "kept"], ["fit", "energy.csv", "-y", "energy", "--name", "other", *FEW]]
    for words in commands if options[0] == "--plot" else commands[:1]:
        assert f"needs {package}: pip install 'evo-search[formulas]'" in refused(capsys, *words, *options)
    assert fit.list_fits() == ["kept"]


def test_one_evaluation_is_no_evaluations():
    assert [_count(number, "row") for number in (0, 1, 2, 1000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
