"""The settings of each kind of stage: the keys that its command takes, and no second vocabulary.

train, search and compare take what `--config FILE` of evo train, evo run and evo compare takes; pretrain, evaluate and
report take their commands' options, underscores for dashes. compare takes its options `against` and `processes` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evo.comparison.plan import COMPARED, CompareConfig, arms_of, check_name
from evo.config.parse import parse
from evo.config.run import RunConfig
from evo.config.train import TrainRun
from evo.errors import BadInput

KINDS = ("pretrain", "train", "evaluate", "search", "compare", "report")
POLICY, RUN, FILE = "policy", "run", "file"
GIVES: Mapping[str, str] = {"pretrain": POLICY, "train": POLICY, "evaluate": FILE, "search": RUN, "compare": RUN}
"""What a reference to a stage of this kind stands for; a report gives nothing."""

OF_EACH_ARM = ("policy", "rollouts")
"""Keys of a run that a comparison takes from its arms."""


class PretrainSettings(BaseModel):
    """The options of `evo pretrain`."""

    model_config = ConfigDict(extra="forbid")

    language: Literal["maze", "maze-edit"] = "maze"
    start: str | None = None
    steps: int | None = Field(None, ge=1)
    seconds: float | None = Field(None, gt=0)
    seed: int = Field(0, ge=0)
    width: int | None = Field(None, ge=8)
    layers: int | None = Field(None, ge=1)
    heads: int | None = Field(None, ge=1)
    lr: float | None = Field(None, gt=0)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: int = Field(1, ge=1)


class EvaluateSettings(BaseModel):
    """The options of `evo evaluate`."""

    model_config = ConfigDict(extra="forbid")

    problems: list[str] = Field(default_factory=list)
    limit: int | None = Field(None, ge=1)
    policy: str = "embedded:base"
    answers: int | None = Field(None, ge=1, le=32)
    answers_total: int = Field(30, ge=1, le=100_000)
    seeds: int = Field(1, ge=1, le=1000)
    seed: int | None = Field(None, ge=0)
    temperature: float | None = Field(None, ge=0.0, le=5.0)
    top_p: float | None = Field(None, gt=0.0, le=1.0)
    max_new_tokens: int | None = Field(None, ge=1)
    sandbox: Literal["auto", "bwrap", "landlock", "none"] | None = None
    device: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    against: str | None = None

    def run_config(self) -> RunConfig:
        """The part of it that the command reads as a run's."""
        given = self.model_dump(exclude_unset=True, exclude_none=True)
        return RunConfig.model_validate({key: value for key, value in given.items() if key in RunConfig.model_fields})


class ReportSettings(BaseModel):
    """The argument and the options of `evo report`."""

    model_config = ConfigDict(extra="forbid")

    run: str
    against: str | None = None


class CompareSettings(CompareConfig):
    """A comparison's configuration with the two options of `evo compare` that decide no run."""

    against: str | None = None
    processes: int | None = Field(None, ge=1, le=64)

    @field_validator("search")
    @classmethod
    def _of_all_arms(cls, search: RunConfig) -> RunConfig:
        for key in OF_EACH_ARM:
            if key in search.model_fields_set:
                raise ValueError(f"{key} is an arm's own; name it under arms")
        return search


MODELS: Mapping[str, type[BaseModel]] = {
    "pretrain": PretrainSettings,
    "train": TrainRun,
    "evaluate": EvaluateSettings,
    "search": RunConfig,
    "compare": CompareSettings,
    "report": ReportSettings,
}


def read_settings(kind: str, values: Mapping[str, Any], source: str) -> tuple[BaseModel, dict[str, Any]]:
    """Validated settings, and the keys that were given, in plain values that do not depend on how they were written
    (1e-3 or 0.001). Raises BadInput, one line that names the key."""
    shaped: dict[str, Any] = dict(values)
    if kind == "compare":
        shaped = _comparison(values)
    elif kind == "train" and isinstance(values.get("from_traces"), str):
        shaped["from_traces"] = [values["from_traces"]]
    settings = parse(MODELS[kind], shaped, source, inlined="search" if kind == "compare" else "", reserved=OF_EACH_ARM)
    if kind == "train" and "method" not in settings.model_fields_set:
        raise BadInput(f"{source}: method is missing, as in method: vpo")
    if isinstance(settings, CompareSettings):
        try:
            for name in settings.arms:
                check_name(name)
            for name in settings.best_of_n or []:
                if name not in settings.arms:
                    raise BadInput(f"best-of-n of {name}: there is no such arm; there are {', '.join(settings.arms)}")
            arms = arms_of(settings)
        except BadInput as error:
            raise BadInput(f"{source}: arms: {error}") from error
        if settings.against is not None and settings.against not in arms:
            raise BadInput(f"{source}: against: there is no arm {settings.against}; there are {', '.join(arms)}")
    given = settings.model_dump(mode="json", exclude_unset=True)
    if kind == "compare":
        given.update(given.pop("search"))
    return settings, given


def _comparison(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a comparison apart, those of its searches under `search`; `NAME: ADDRESS` is an arm too."""
    own = {key: value for key, value in values.items() if key in (*COMPARED, "against", "processes")}
    if isinstance(own.get("arms"), Mapping):
        own["arms"] = {str(k): {"policy": v} if isinstance(v, str) else v for k, v in own["arms"].items()}
    return {"arms": {}, **own, "search": {key: value for key, value in values.items() if key not in own}}
