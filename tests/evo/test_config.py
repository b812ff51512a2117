import pytest

from evo.config.run import RunConfig, load_config, validated
from evo.errors import BadInput


def test_defaults_are_valid_and_survive_storage():
    config = RunConfig()
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config
    assert (config.rollouts, config.answers, config.population.islands) == (1, 3, 5)


def test_flags_override_the_file_and_reach_into_sections(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("iterations: 7\nseed: 3\npopulation:\n  islands: 2\n  migration_interval: 9\n")
    config = load_config(
        str(path), {"iterations": 11, "population.islands": 4, "rollouts": None, "problems": ("a", "b")}
    )
    assert (config.iterations, config.seed, config.rollouts) == (11, 3, 1)
    assert (config.population.islands, config.population.migration_interval) == (4, 9)
    assert config.problems == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("iteratons: 7\n", "iteratons"),
        ("population:\n  ilands: 2\n", "population.ilands"),
        ("answers: 0\n", "answers = 0"),
        ("answers: many\n", "answers = 'many'"),
        ("temperature: .nan\n", "temperature"),
        ("- a\n- b\n", "expected keys and values"),
        ("a: [1\n", "not YAML"),
        ("population: 3\n", "population"),
    ],
)
def test_a_wrong_file_gives_one_line_that_names_the_key(tmp_path, text, named):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as raised:
        load_config(str(path), {})
    message = str(raised.value)
    assert named in message
    assert "wrong.yaml" in message
    assert "\n" not in message


def test_an_unknown_key_lists_the_known_ones_of_its_section():
    with pytest.raises(BadInput, match="known: .*migration_interval"):
        validated({"population": {"migrate_every": 3}}, "test")


def test_a_missing_file_is_bad_input():
    with pytest.raises(BadInput, match="nowhere.yaml"):
        load_config("nowhere.yaml", {})


def test_a_scalar_where_a_section_belongs_is_bad_input(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("population: 3\n")
    with pytest.raises(BadInput, match="population must be a section"):
        load_config(str(path), {"population.islands": 2})
