"""An OpenEvolve config.yaml in the engine's terms."""

import pytest

from islands.population.config import PopulationConfig
from problems import BadAddress
from problems.openevolve.config import DEFAULTS, read_config

FULL = """
max_iterations: 12
random_seed: 7
language: python
checkpoint_interval: 5
diff_based_evolution: false
max_code_length: 500
enforce_evolve_blocks: true
allow_full_rewrites: true
llm:
  primary_model: some-model
  api_key: ${NOT_SET_ANYWHERE}
  temperature: 0.4
prompt:
  system_message: Be brief.
  template_dir: templates
  num_top_programs: 2
  num_diverse_programs: 1
  include_artifacts: false
database:
  population_size: 60
  archive_size: 20
  num_islands: 4
  feature_dimensions: [complexity, speed]
  feature_bins: {complexity: 5, speed: 7}
  elite_selection_ratio: 0.3
  exploration_ratio: 0.6
  exploitation_ratio: 0.7
  migration_interval: 9
  migration_rate: 0.2
  db_path: null
evaluator:
  timeout: 5
  cascade_evaluation: true
  cascade_thresholds: [0.1, 0.2]
  parallel_evaluations: 3
  use_llm_feedback: false
target: 0.9
"""


def config(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_honoured_keys_come_in_our_terms_and_the_rest_in_one_warning(tmp_path):
    path = config(tmp_path, FULL)
    read = read_config(path)
    assert read.settings == {
        "enable_artifacts": True,
        "file_suffix": ".py",
        "max_iterations": 12,
        "seed": 7,
        "language": "python",
        "diff_based_evolution": False,
        "max_code_length": 500,
        "temperature": 0.4,
        "policy": "openai:some-model?key=NOT_SET_ANYWHERE",
        "system_message": "Be brief.",
        "template_dir": str(tmp_path / "templates"),
        "num_top_programs": 2,
        "num_diverse_programs": 1,
        "include_artifacts": False,
        "population_size": 60,
        "archive_size": 20,
        "islands": 4,
        "feature_dimensions": ["complexity", "speed"],
        "feature_bins": {"complexity": 5, "speed": 7},
        "elite_selection_ratio": 0.3,
        "exploration_ratio": 0.6,
        "exploitation_ratio": 0.4,
        "migration_interval": 9,
        "migration_rate": 0.2,
        "timeout": 5,
        "cascade_evaluation": True,
        "cascade_thresholds": [0.1, 0.2],
        "parallel_evaluations": 3,
        "target": 0.9,
    }
    assert set(read.ignored) == {
        "checkpoint_interval",
        "allow_full_rewrites",
        "database.db_path",
        "evaluator.use_llm_feedback",
    }
    warning = read.warning(path)
    assert "\n" not in warning and all(key in warning for key in read.ignored)


def test_the_population_accepts_what_is_carried_over(tmp_path):
    settings = read_config(config(tmp_path, FULL)).settings
    fields = {key: value for key, value in settings.items() if key in PopulationConfig.model_fields}
    assert PopulationConfig.model_validate(fields).islands == 4
    assert {"islands", "population_size", "migration_rate", "feature_bins"} <= fields.keys()


def test_an_empty_file_is_all_defaults_without_a_warning(tmp_path):
    path = config(tmp_path, "")
    read = read_config(path)
    assert read.settings == DEFAULTS and read.warning(path) == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("database:\n  num_islands: many", "database.num_islands is 'many'; it must be a whole number"),
        ("database:\n  migration_rate: 1.5", "share between 0 and 1"),
        ("evaluator:\n  timeout: 0", "positive number"),
        ("evaluator:\n  cascade_thresholds: 0.5", "list of numbers"),
        ("max_iterations: true", "whole number"),
        ("- a\n- b", "holds a list"),
        ("a: [1", "is no YAML"),
        ("a: \x00", "is no YAML"),
    ],
)
def test_a_broken_config_is_one_line(tmp_path, text, says):
    with pytest.raises(BadAddress, match=says) as caught:
        read_config(config(tmp_path, text))
    assert "\n" not in str(caught.value) and "config.yaml" in str(caught.value)


def test_a_section_of_the_wrong_kind_is_named(tmp_path):
    assert read_config(config(tmp_path, "database: 5\n")).ignored == ("database",)
