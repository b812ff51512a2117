"""What a checkpoint says of its training, and of what is none of it."""

import pytest

from problems.contract import BadAddress
from vpo.policies.address import parse_address
from vpo.policies.checkpoint import TRAINED, trained_answers, write_trained


def test_the_policies_that_ship_say_how_many_answers_they_give():
    assert {name: trained_answers(parse_address(f"embedded:{name}")) for name in ("base", "grpo", "vpo")} == {
        "base": None,
        "grpo": 1,
        "vpo": 3,
    }


def test_a_directory_says_it_and_a_hub_is_not_asked(tmp_path):
    assert trained_answers(parse_address(str(tmp_path))) is None
    write_trained(tmp_path, {"method": "vpo", "answers": 5})
    assert trained_answers(parse_address(str(tmp_path))) == 5
    assert trained_answers(parse_address("somebody/some-model")) is None


@pytest.mark.parametrize("text", ["{", '{"answers": "three"}', '{"answers": 0}', "[]"])
def test_a_file_that_cannot_be_is_one_line(tmp_path, text):
    (tmp_path / TRAINED).write_text(text)
    with pytest.raises(BadAddress) as caught:
        trained_answers(parse_address(str(tmp_path)))
    assert "\n" not in str(caught.value)


def test_an_unknown_embedded_policy_is_named():
    with pytest.raises(BadAddress, match="embedded:none"):
        trained_answers(parse_address("embedded:none"))
