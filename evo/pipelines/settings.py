"""The settings of each kind of stage: the keys that its command takes, and no second vocabulary.

train, search and compare take what `--config FILE` of evo train, evo run and evo compare takes; pretrain, evaluate,
pick and report take their commands' options, underscores for dashes. compare takes its options `against` and
`processes` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from evo.config.compare import CompareOptions, parse_comparison, shape_comparison
from evo.config.evaluate import EvaluateConfig
from evo.config.parse import parse
from evo.config.pick import PickConfig
from evo.config.pretrain import PretrainSettings
from evo.config.run import RunConfig
from evo.config.train import TrainRun
from evo.errors import BadInput

KINDS = ("pretrain", "train", "evaluate", "pick", "search", "compare", "report")
POLICY, RUN, FILE, PROBLEMS = "policy", "run", "file", "list of problems"
GIVES: Mapping[str, str] = {
    **{"pretrain": POLICY, "train": POLICY, "evaluate": FILE, "pick": PROBLEMS},
    **{"search": RUN, "compare": RUN},
}
"""What a reference to a stage of this kind stands for; a report gives nothing."""


class ReportSettings(BaseModel):
    """The argument and the options of `evo report`."""

    model_config = ConfigDict(extra="forbid")

    run: str
    against: str | None = None


MODELS: Mapping[str, type[BaseModel]] = {
    "pretrain": PretrainSettings,
    "train": TrainRun,
    "evaluate": EvaluateConfig,
    "pick": PickConfig,
    "search": RunConfig,
    "compare": CompareOptions,
    "report": ReportSettings,
}


def read_settings(kind: str, values: Mapping[str, Any], source: str) -> tuple[BaseModel, dict[str, Any]]:
    """Validated settings, and the keys that were given, in plain values that do not depend on how they were written
    (1e-3 or 0.001). Raises BadInput, one line that names the key."""
    if kind == "compare":
        comparison = parse_comparison(shape_comparison(values), source)
        given = comparison.model_dump(mode="json", exclude_unset=True)
        return comparison, given | given.pop("search")
    if kind == "train" and isinstance(values.get("from_traces"), str):
        values = {**values, "from_traces": [values["from_traces"]]}
    settings = parse(MODELS[kind], values, source)
    if kind == "train" and "method" not in settings.model_fields_set:
        raise BadInput(f"{source}: method is missing, as in method: vpo")
    return settings, settings.model_dump(mode="json", exclude_unset=True)
