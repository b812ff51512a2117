"""Rows for veRL from problems of evo: python data.py programs:tasks.jsonl train.parquet"""

import sys

import pandas

from evo.config.run import PromptConfig
from evo.prompts.registry import open_chat
from islands.types import Selection
from problems import resolve

ANSWERS = 3


def rows(address: str) -> list[dict]:
    """One row a problem; the answers that a completion may hold are asked for in its prompt."""
    found = []
    for index, problem in enumerate(resolve(address)):
        prompt = open_chat(problem, PromptConfig(), ANSWERS).build(Selection(None, (), ()), index)
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        found.append(
            {
                "data_source": "evo",
                "prompt": messages[not prompt.system :],
                "reward_model": {"style": "rule", "ground_truth": problem.name},
                "extra_info": {"index": index},
            }
        )
    return found


if __name__ == "__main__":
    pandas.DataFrame(rows(sys.argv[1])).to_parquet(sys.argv[2])
