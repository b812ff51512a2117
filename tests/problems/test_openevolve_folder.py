"""OpenEvolve problem directories, unchanged: objectives, fitness, cascade, artifacts, and whose fault a failure is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evo.config.run import RunConfig
from evo.search.resources import population_config
from islands.population.config import PopulationConfig
from problems import BadAddress, Problem, Score, ScorerFault, resolve
from problems.openevolve.config import DEFAULTS, OpenEvolveConfig, read_config
from problems.openevolve.evolve_block import NotSpliceable, regions, splice
from vpo.policies.address import parse_address, parse_addresses
from vpo.servers.address import endpoint

PROGRAM = """# EVOLVE-BLOCK-START
def value():
    return 0.5
# EVOLVE-BLOCK-END


def run():
    return value()
"""
EVALUATOR = """
import importlib.util


def load(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def evaluate(path):
    value = load(path).run()
    return {"value": value, "twice": 2 * value, "note": "seen"}
"""
CASCADE = """
from openevolve.evaluation_result import EvaluationResult
import numpy as np
from helper import load


def evaluate(path):
    return evaluate_stage2(path)


def evaluate_stage1(path):
    return {"runs": 1.0 if load(path).run() > 0 else 0.0, "error": 0.0}


def evaluate_stage2(path):
    value = load(path).run()
    return EvaluationResult(
        metrics={"value": np.float32(value), "combined_score": value / 2},
        artifacts={"trace": "went well", "raw": b"bytes"},
    )


def evaluate_stage3(path):
    return {"extra": load(path).run() ** 2, "combined_score": 1.0}
"""


@pytest.fixture
def directory(tmp_path):
    def make(evaluator=EVALUATOR, config=None, program=PROGRAM, **files):
        (tmp_path / "initial_program.py").write_text(program)
        (tmp_path / "evaluator.py").write_text(evaluator)
        if config is not None:
            (tmp_path / "config.yaml").write_text(config)
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        (problem,) = resolve(str(tmp_path))
        return problem

    return make


HELPER = EVALUATOR.partition("def evaluate")[0]


def answer(body):
    return f"# EVOLVE-BLOCK-START\ndef value():\n    {body}\n# EVOLVE-BLOCK-END\n"


def test_every_numeric_metric_is_an_objective_and_their_mean_the_fitness(directory):
    problem = directory()
    assert isinstance(problem, Problem) and problem.objectives == ("value", "twice") and problem.target is None
    assert problem.seed_answer() == PROGRAM and problem.answer_format == "python"
    assert "value, twice" in problem.statement()
    seed = problem.score(problem.seed_answer()).check(problem)
    assert seed.rewards == (0.5, 1.0) and seed.fitness == 0.75 and "note: seen" in seed.feedback
    assert problem.score(problem.canonical(answer("return 4"))).rewards == (4.0, 8.0)


CALLS = (
    "def evaluate(path):\n    return {'combined_score': load(path).run() / 3, 'digits': 4.0, 'calls': 8, 'ok': True}\n"
)


@pytest.mark.parametrize(
    ("config", "objectives", "says"),
    [
        ("", ("combined_score",), "Higher is better in combined_score. Only"),
        ("database: {feature_dimensions: [calls]}", ("combined_score",), "Higher is better in combined_score. Only"),
        ("directions: {combined_score: min}", ("combined_score",), "program. Lower is better in combined_score. Only"),
        (
            "directions: {calls: min}",
            ("digits", "calls"),
            "Higher is better in digits. combined_score decides. Lower is better in calls. Only",
        ),
        (
            "{objectives: [combined_score, calls], directions: {calls: min}}",
            ("combined_score", "calls"),
            "Higher is better in combined_score. Lower is better in calls. In the fitness",
        ),
    ],
)
def test_each_objective_has_one_sentence_and_other_metrics_none(directory, config, objectives, says):
    problem = directory(HELPER + CALLS, config)
    assert problem.objectives == objectives and says in problem.statement()
    told = problem.score(PROGRAM)
    assert set(told.features) == {"digits", "calls"} - set(objectives) and "ok: True" in told.feedback
    grid = population_config(RunConfig(), problem)
    assert grid.feature_dimensions == (("calls",) if "feature" in config else ("complexity", "diversity"))


def evaluator(metrics):
    return f"def evaluate(path):\n    n = len(open(path).read())\n    return {metrics}\n"


def test_a_directory_declares_directions_and_objectives_in_its_config(directory, warned):
    metrics = "{'error': 3.0, 'gain': 2.0, 'eval_time': 9.0}"
    problem, told = warned(metrics, lambda text: directory(evaluator(text), "directions: {error: min}\n"))
    assert problem.fault is None and problem.objectives == ("error", "gain")
    assert problem.score(PROGRAM) == Score((0.5, 2.0), 1.25, values=(3.0, 2.0))
    assert len(told) == 1 and "eval_time: timings, no objectives unless named" in told[0]
    assert "Lower is better in error" in problem.statement()
    problem, told = warned(metrics, lambda text: directory(evaluator(text), "objectives: [eval_time, gain]\n"))
    assert problem.objectives == ("eval_time", "gain") and len(told) == 1 and "in eval_time" in told[0]
    assert "no metric named other; there are gain" in str(
        directory(evaluator("{'gain': 2.0}"), "objectives: [other]\n").fault
    )


def test_a_combined_score_to_be_lowered(directory):
    problem = directory(evaluator("{'combined_score': float(n)}"), "directions: {combined_score: min}\n")
    longer = problem.canonical(answer("return 0.5000"))
    assert 0 < problem.score(longer).fitness < problem.score(PROGRAM).fitness < 1


def test_a_seed_that_fails_is_announced(directory):
    body = (
        "try:\n        open('/no/such')\n    except OSError as error:\n        return {'v': 0.0, 'error': str(error)}\n"
    )
    with pytest.warns(UserWarning, match="initial program fails: .*Errno.*readable.*--sandbox none"):
        directory(f"def evaluate(path):\n    {body}")
    infinite = body.replace("'v': 0.0, 'error': str(error)", "'v': float('inf'), 'cases': [str(error)]")
    told = str(directory(f"def evaluate(path):\n    {infinite}").fault)
    assert "it gave v = inf" in told and "cases: [" in told and "/no/such" in told


def test_what_the_config_calls_readable_is_read(directory, tmp_path_factory):
    data = tmp_path_factory.mktemp("data") / "n.txt"
    data.write_text("8")
    reader = f"def evaluate(path):\n    return {{'n': int(open({str(data)!r}).read())}}\n"
    assert "`readable` in config.yaml" in str(directory(reader).fault)
    assert directory(reader, f"readable: [{data}]\n").score_seed().rewards == (8.0,)


def test_a_cascade_stops_at_its_thresholds_and_merges_what_it_measured(directory):
    config = "evaluator:\n  cascade_thresholds: [0.5, 1.5]\ntarget: 0.9\n"
    problem = directory(CASCADE, config + "objectives: [runs, value, extra]\n", helper=HELPER)
    assert problem.objectives == ("runs", "value", "extra") and problem.target == 0.9
    seed = problem.score(problem.seed_answer())
    assert seed.rewards == (1.0, 0.5, 0.0) and seed.fitness == 0.25
    assert "its reward is 0: extra" in seed.feedback
    assert "trace: went well" in seed.feedback and "raw: bytes" in seed.feedback
    assert problem.score(problem.canonical(answer("return 4"))).rewards == (1.0, 4.0, 16.0)
    problem = directory(CASCADE, config, helper=HELPER)
    assert problem.objectives == ("combined_score",)
    seed = problem.score(problem.seed_answer())
    assert (seed.rewards, seed.fitness, seed.features) == ((0.25,), 0.25, {"runs": 1.0, "value": 0.5})
    off = "evaluator:\n  cascade_evaluation: false\nprompt:\n  include_artifacts: false\n  system_message: Be clever.\n"
    problem = directory(CASCADE, off, helper=HELPER)
    assert problem.objectives == ("combined_score",) and problem.score(PROGRAM).fitness == 0.25
    assert "went well" not in problem.score(PROGRAM).feedback and problem.statement().startswith("Be clever.")


def test_a_failure_in_a_later_stage_keeps_what_the_earlier_measured(directory):
    # an evaluator that looks into its program, so that they share a process and the program sees the stages
    looking = HELPER.replace(
        "    return program", "    assert program.run.__code__.co_filename == path\n    return program"
    )
    problem = directory(CASCADE, "evaluator:\n  timeout: 1\n", helper=looking)
    body = "import time, sys\n    frame = sys._getframe(2).f_code.co_name\n    "
    slow = problem.score(problem.canonical(answer(body + "return time.sleep(9) if frame == 'evaluate_stage2' else 1")))
    # OpenEvolve gives {runs: 1, error: 0, stage2_passed: 0, timeout: True}, of which the flag does not count
    assert slow.fitness == 1 / 3 and slow.error is None
    assert "evaluate_stage2" in slow.feedback and "timeout is 1 s" in slow.feedback and "timeout: True" in slow.feedback


WRONG = {
    "return undefined": "NameError",
    "import sys; sys.exit('bye')": "SystemExit",
    "import os; os._exit(4)": "",
    "while True: pass": "timeout is 1 s",
    "return bytearray(1 << 40)": "memory",
    "return ((": "SyntaxError",
    "import no_such_module_at_all": "ModuleNotFoundError",
    "return 1\ndef value(x): return 1": "TypeError",
    "return 1\ndel value": "NameError",
}


def test_what_the_answer_does_wrong_is_a_zero_score(directory):
    problem = directory(config="evaluator:\n  timeout: 1\n")
    for body, says in WRONG.items():
        score = problem.score(problem.canonical(answer(body))).check(problem)
        assert score.rewards == (0.0, 0.0) and score.fitness == 0.0, body
        assert says in score.error and score.feedback, body
    assert problem.score(problem.canonical(answer("return 1"))).rewards == (1.0, 2.0)


@pytest.mark.parametrize(("number", "apart"), [("-math.inf", False), ("math.nan", True), ("-10**400", False)])
def test_an_error_wins_over_numbers_that_are_not_finite(directory, number, apart):
    failed = f"{{'value': {number}, 'other': 0.5, 'error': 'wrong value'}}"
    if apart:
        failed = f"types.SimpleNamespace(metrics={{'value': {number}}}, artifacts={{'error': 'wrong value'}})"
    good = "{'value': value, 'other': 1, 'error': None}"
    evaluator = f"import math, types\n{HELPER}def evaluate(path):\n    value = load(path).run()\n    return "
    problem = directory(f"{evaluator}{failed} if value == 4 else {good}\n")
    assert problem.score(PROGRAM).error is None
    score = problem.score(problem.canonical(answer("return 4"))).check(problem)
    assert (score.rewards, score.fitness, score.error) == ((0.0, 0.0), 0.0, "wrong value")
    assert "error: wrong value" in score.feedback
    with pytest.raises(ScorerFault, match="the initial program itself cannot be evaluated: wrong value"):
        directory(evaluator + failed).score(PROGRAM)


def test_what_an_answer_does_to_the_judge_that_it_shares_a_process_with_stops_no_problem(directory):
    program = PROGRAM.replace("def run():\n    return value()", "def run(given):\n    return given() * value()")
    problem = directory(
        f"{HELPER}def evaluate(path):\n    return {{'value': load(path).run(lambda: 2)}}\n", None, program
    )
    assert problem.score(program).fitness == 1.0 and problem.execution == "shared"
    silent = "class E(Exception):\n        def __str__(self): raise SystemExit\n    raise E"
    late = "import signal\n    def ring(*_): raise KeyError('ring')\n    signal.signal(signal.SIGALRM, ring)\n"
    late += "    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)\n    return 1"
    for body in (silent, late):
        score = problem.score(problem.canonical(answer(body)))
        assert score.error and score.error.startswith("evaluate: ") and score.fitness == 0.0
        assert problem.score(program).fitness == 1.0


def test_a_new_metric_is_ignored_with_one_warning(directory):
    measured = "{'v': v, **({'new': 1} if v > 1 else {})}"
    problem = directory(f"{HELPER}def evaluate(path):\n    v = load(path).run()\n    return {measured}\n")
    with pytest.warns(UserWarning, match="new: no metric of the initial program") as caught:
        assert problem.score(problem.canonical(answer("return 4"))).rewards == (4.0,)
        problem.score(problem.canonical(answer("return 5")))
    assert len(caught) == 1


def test_what_stands_outside_the_block_cannot_be_changed(directory):
    problem = directory()
    cheat = answer("return 1") + "\n\ndef run():\n    return 1000\n"
    assert problem.score(cheat).rewards == problem.score(problem.canonical(cheat)).rewards == (1.0, 2.0)
    lost = problem.canonical("def value():\n    return 1\n\n\ndef run():\n    return 1000\n")
    score = problem.score(lost)
    assert score.fitness == 0 and "EVOLVE-BLOCK" in score.error and "run" in score.feedback
    fenced = problem.canonical(f"Here it is:\n```python\n{answer('return 3')}```\n")
    assert fenced == PROGRAM.replace("return 0.5", "return 3") == problem.canonical(fenced)


def test_a_program_over_the_length_limit_fails(directory):
    problem = directory(config="max_code_length: 200\n")
    score = problem.score(problem.canonical(answer(f"return {'1 + ' * 100}1")))
    assert score.fitness == 0 and "max_code_length" in score.error


def test_a_config_by_another_name(directory, tmp_path):
    directory()
    (tmp_path / "fast.yaml").write_text("max_iterations: 3\nlog_level: INFO\n")
    with pytest.warns(UserWarning, match="not honoured: log_level"):
        (problem,) = resolve(str(tmp_path / "fast.yaml"))
    assert problem.settings["max_iterations"] == 3 and problem.name.endswith("fast.yaml")


def test_several_programs_are_told_apart_by_name(tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(PROGRAM.replace("0.5", "0.25" if name == "a.py" else "0.75"))
    (tmp_path / "evaluator.py").write_text(EVALUATOR)
    (tmp_path / "scorer.py").write_text("def score(answer):\n    return len(answer)\n")
    with pytest.raises(BadAddress, match=r"2 files that may be its initial program \(a.py, b.py\); name it: .*a\.py"):
        resolve(str(tmp_path))
    for name, value in (("a.py", 0.25), ("b.py", 0.75)):
        (problem,) = resolve(str(tmp_path / name))
        assert problem.score(problem.seed_answer()).rewards == (value, 2 * value)
    (scorer,) = resolve(str(tmp_path / "scorer.py"))
    assert scorer.objectives == ("score",), "a scorer file beside them is one still"


def test_an_async_evaluate_is_awaited(directory):
    code = EVALUATOR.replace("def evaluate", "async def evaluate") + "    "
    problem = directory(
        "import asyncio\n" + code.replace("    value = load", "    await asyncio.sleep(0)\n    value = load")
    )
    assert problem.fault is None and problem.score(PROGRAM).rewards == (0.5, 1.0)
    assert problem.score(problem.canonical(answer("raise ValueError"))).error.startswith("evaluate: ValueError")


def test_an_evaluation_carries_nothing_that_its_evaluator_does_not_import(directory):
    """Each is a fork of the process that has it loaded, and pays for the size of that."""
    carried = "float(sum(name in sys.modules for name in ('asyncio', 'ssl', 'tempfile', 'numpy')))"
    problem = directory(f"import sys\n\ndef evaluate(path):\n    return {{'none': {carried}}}\n")
    assert problem.fault is None and problem.score_seed().rewards == (0.0,)


@pytest.mark.parametrize("body", ["return '\0'", "return '\ud800'"])
def test_an_answer_that_no_file_can_hold_is_the_answers_fault(directory, body):
    reader = "def evaluate(path):\n    code = open(path, encoding='utf-8').read()\n    compile(code, 'it', 'exec')\n"
    problem = directory(reader + "    return {'size': len(code)}\n")
    score = problem.score(problem.canonical(answer(body)))
    assert score.rewards == (0.0,) and "no source file" in score.error


MARKED = "# EVOLVE-BLOCK-START\nx\n# EVOLVE-BLOCK-END\n"


@pytest.mark.parametrize(
    ("files", "language"),
    [
        ({"program.py": "value = 1\n", "evaluator.py": ""}, "python"),
        ({"my_algorithm.py": PROGRAM, "helper.py": "x = 1\n", "evaluator.py": ""}, "python"),
        ({"start.rs": MARKED, "evaluator.py": ""}, "rust"),
        ({"initial_program.go": "// x\n", "evaluator.py": ""}, "go"),
        ({"initial_prompt.txt": "Say it.\n", "evaluator.py": ""}, "txt"),
        ({"initial_content_stub.txt": "Say it.\n", "notes.txt": "", "evaluator.py": ""}, "txt"),
        ({"notes.md": MARKED, "evaluator.py": ""}, "md"),
        ({"solve.zig": "x\n", "helper.py": "", "evaluator.py": "", "config.yaml": "file_suffix: .zig\n"}, "zig"),
        ({"solve.py": MARKED, "README.md": MARKED, "evaluator.py": ""}, "python"),
        ({"initial_program.py": "x = 1\n", "evaluator/evaluator.py": ""}, "python"),
    ],
)
def test_the_program_may_have_any_name_and_the_answers_file_has_its_suffix(tmp_path, files, language):
    program, code = next(iter(files.items()))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        suffix = Path(program).suffix
        evaluator = f"def evaluate(path):\n    return {{'same': path.endswith({suffix!r}) * 1}}\n"
        (tmp_path / name).write_text(evaluator if name.endswith("evaluator.py") else text)
    (problem,) = resolve(str(tmp_path))
    assert problem.fault is None and problem.language == language and problem.objectives == ("same",)
    assert problem.seed_answer() == code and problem.score(code).rewards == (1.0,) and problem.name == str(tmp_path)
    (named,) = resolve(str(tmp_path / program))
    assert named.seed_answer() == code and [p.name for p in resolve(named.name)] == [named.name]
    assert resolve(str(problem.evaluator_file))[0].name == problem.name


BLOCK_PROGRAM = """import math  

# EVOLVE-BLOCK-START
def pick(n):
    return n
# EVOLVE-BLOCK-END


def fixed(n):
    return math.sqrt(pick(n))


if __name__ == "__main__":
    print(fixed(4))
"""
TWO = """a = 0
# EVOLVE-BLOCK-START
b = 1
# EVOLVE-BLOCK-END
c = 2
// EVOLVE-BLOCK-START
d = 3
// EVOLVE-BLOCK-END
"""


OTHER = BLOCK_PROGRAM.replace("return n\n", "return 7\n")
UNMARKED = "\n".join(line.rstrip() for line in OTHER.split("\n") if "EVOLVE" not in line)


@pytest.mark.parametrize(
    ("program", "answer", "spliced"),
    [
        *((program, program, program) for program in (BLOCK_PROGRAM, TWO, "no blocks at all\n")),
        (BLOCK_PROGRAM, OTHER.replace("sqrt", "cbrt").replace("print", "exec"), OTHER),
        (BLOCK_PROGRAM, "# EVOLVE-BLOCK-START\ndef pick(n):\n    return 7\n# EVOLVE-BLOCK-END", OTHER),
        (BLOCK_PROGRAM, f"\n\n{UNMARKED}\n\n", OTHER),
    ],
    ids=["one block", "two blocks", "none", "changes outside", "a block alone", "markers lost"],
)
def test_what_stands_outside_the_blocks_is_the_programs(program, answer, spliced):
    assert splice(program, answer) == spliced


def test_a_blocks_content_alone_is_taken_unless_it_would_repeat_what_stands_outside():
    assert "return 5" in splice(BLOCK_PROGRAM, "def pick(n):\n    return 5\n")
    with pytest.raises(NotSpliceable, match="fixed, which stands outside"):
        splice(BLOCK_PROGRAM, "def pick(n):\n    return 5\n\ndef fixed(n):\n    return 1\n")


@pytest.mark.parametrize(
    ("program", "answer", "says"),
    [
        (TWO, "b = 9\n", "2 EVOLVE-BLOCKs and the answer no markers"),
        (TWO, "# EVOLVE-BLOCK-START\nb = 9\n# EVOLVE-BLOCK-END\n", "2 EVOLVE-BLOCK.* and the answer 1 blocks"),
        (BLOCK_PROGRAM, TWO, "1 EVOLVE-BLOCK.* and the answer 2 blocks"),
        (BLOCK_PROGRAM, "# EVOLVE-BLOCK-START\nx = 1\n", "unmatched markers"),
        (BLOCK_PROGRAM, "# EVOLVE-BLOCK-END\n# EVOLVE-BLOCK-START\n", "unmatched markers"),
        ("# EVOLVE-BLOCK-START\n", "x = 1\n", "own EVOLVE-BLOCK markers"),
    ],
)
def test_what_cannot_be_put_back_says_why(program, answer, says):
    with pytest.raises(NotSpliceable, match=says):
        splice(program, answer)


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from(
            ["x = 1", "", "# EVOLVE-BLOCK-START", "# EVOLVE-BLOCK-END", "def fixed(n):", "    pass", "import math  "]
        ),
        max_size=14,
    ).map("\n".join)
)
def test_nothing_outside_the_blocks_ever_changes_and_splicing_twice_changes_nothing(answer):
    for program in (BLOCK_PROGRAM, TWO):
        try:
            spliced = splice(program, answer)
        except NotSpliceable:
            continue
        assert regions(spliced).fixed == regions(program).fixed
        assert splice(program, spliced) == spliced


FULL = (Path(__file__).parent / "data" / "openevolve_config.yaml").read_text()


def read(folder: Path, text: str) -> OpenEvolveConfig:
    path = folder / "config.yaml"
    path.write_text(text)
    return read_config(path)


def test_honoured_keys_come_in_our_terms_and_the_rest_in_one_warning(tmp_path):
    found = read(tmp_path, FULL)
    given = yaml.safe_load(FULL)
    sections = {name: given.pop(name) for name in ("llm", "prompt", "database", "evaluator")}
    renamed = {"random_seed": "seed", "num_islands": "islands"}
    same = {renamed.get(key, key): value for part in (given, *sections.values()) for key, value in part.items()}
    ignored = {"checkpoint_interval", "allow_full_rewrites", "database.db_path", "evaluator.use_llm_feedback"}
    for key in (*ignored, "enforce_evolve_blocks", "primary_model", "api_key"):
        del same[key.rpartition(".")[2]]
    assert found.settings == {
        **same,
        **{"enable_artifacts": True, "file_suffix": ".py", "exploitation_ratio": 0.4},  # of 0.7 the rest
        **{"policy": "openai:some-model?key=NOT_SET_ANYWHERE", "template_dir": str(tmp_path / "templates")},
    }
    assert set(found.ignored) == ignored
    warning = found.warning(tmp_path / "config.yaml")
    assert "\n" not in warning and all(key in warning for key in ignored)
    fields = {key: value for key, value in found.settings.items() if key in PopulationConfig.model_fields}
    assert PopulationConfig.model_validate(fields).islands == 4
    assert {"islands", "population_size", "migration_rate", "feature_bins"} <= fields.keys()
    empty = read(tmp_path, "")
    assert empty.settings == DEFAULTS and empty.warning(tmp_path / "config.yaml") == ""
    assert read(tmp_path, "database: 5\n").ignored == ("database",)


def test_what_a_model_has_beyond_its_weight_and_its_server_is_read(tmp_path, monkeypatch):
    """Weights, servers, temperatures and top-p are compared with OpenEvolve's (tests/parity)."""
    monkeypatch.setenv("PROXY", "http://proxy:4000/v1")
    found = read(
        tmp_path,
        """
llm:
  api_key: ${GEMINI_API_KEY}
  timeout: 90
  max_tokens: 4000
  models:
    - {name: gemini-2.5-flash-lite, weight: 0.8}
    - {name: o4-mini, weight: 0.2, api_base: "${PROXY}", api_key: "${OPENAI_API_KEY}", max_tokens: 8192,
       reasoning_effort: high}
    - {name: never, weight: 0}
""",
    )
    first, second = parse_addresses(found.settings["policy"])
    assert found.settings["max_tokens"] == 4000 and second.common.max_tokens == 8192 and found.ignored == ()
    flash, mini = endpoint(first), endpoint(second)
    assert (flash.options.key, flash.options.timeout) == ("GEMINI_API_KEY", 90)
    options = mini.options
    assert (mini.url, options.key, options.reasoning_effort) == ("http://proxy:4000/v1", "OPENAI_API_KEY", "high")


def test_the_names_that_skydiscover_gives_to_keys_are_read(tmp_path):
    found = read(tmp_path, "max_solution_length: 60000\ndiff_based_generation: false")
    assert found.settings["max_code_length"] == 60_000 and not found.settings["diff_based_evolution"]
    assert found.ignored == ()


def test_an_address_as_a_name_stays_one(tmp_path):
    text = "llm: {models: [{name: ./runs/code, provider: evo, temperature: 0.5}]}"
    address = parse_address(read(tmp_path, text).settings["policy"])
    assert (address.kind, address.model, address.common.temperature) == ("transformers", "./runs/code", 0.5)


def test_a_key_that_is_written_out_is_not_used(tmp_path):
    found = read(tmp_path, "llm: {primary_model: a, api_key: sk-something-secret}")
    assert found.ignored == ("llm.api_key",) and "secret" not in found.settings["policy"]
    assert "environment" in found.warning(Path("config.yaml"))
