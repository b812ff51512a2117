"""`${STAGE}` in a stage's settings: where it may stand, and what takes its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evo.errors import BadInput
from evo.pipelines.settings import FILE, POLICY, PROBLEMS, RUN
from vpo.policies.address import split_policies

_REFERENCE = re.compile(r"(?P<before>archive:)?\$\{\s*(?P<stage>[^{}\s]+)\s*\}(?P<after>/[^,]+|\?[^,]*)?")
_PLACES: Mapping[str, str] = {
    "train.policy": POLICY,
    "train.problems.*": PROBLEMS,
    "train.evaluate.*": PROBLEMS,
    "train.from_traces.*": RUN,
    "train.parents_from": RUN,
    "evaluate.policy": POLICY,
    "evaluate.problems.*": PROBLEMS,
    "evaluate.against": FILE,
    "pick.evaluations.*": FILE,
    "search.policy": POLICY,
    "search.problems.*": PROBLEMS,
    "compare.problems.*": PROBLEMS,
    "compare.arms.*.policy": POLICY,
    "report.run": RUN,
}
"""Keys whose value may be what another stage gives."""
_FOLLOWS: Mapping[str, str] = {POLICY: "?OPTION=VALUE", RUN: "/ARM/sSEED"}
"""What may stand behind a reference."""
_LEADS: Mapping[str, str] = {"train.parents_from": "archive:"}
"""What has to stand before one."""
_STARRED = (("train", "from_traces"), ("train", "evaluate"), ("compare", "arms"))


@dataclass(frozen=True)
class Reference:
    """key: where it stands; wants: what has to be given there; part: "/ARM/sSEED" of a comparison's run."""

    key: str
    stage: str
    wants: str
    part: str = ""


def references(kind: str, values: Mapping[str, Any], source: str) -> tuple[Reference, ...]:
    """Every reference in a stage's (validated, plain) settings. BadInput where one cannot stand."""
    found = []
    for path, text in _strings(values, ()):
        if "${" not in text:
            continue
        key = ".".join(path)
        wants = _PLACES.get(_place(kind, path))
        if wants is None:
            here = sorted(place.split(".", 1)[1] for place in _PLACES if place.startswith(f"{kind}."))
            where = f"; in {kind} it can in {', '.join(here)}" if here else ""
            raise BadInput(f"{source}: {key} = {text!r}: a reference cannot stand here{where}")
        for part in addresses(text) if wants == POLICY and kind in ("search", "compare") else [text]:
            matched = _REFERENCE.fullmatch(part)
            if matched is None and "${" in part:
                raise BadInput(f"{source}: {key} = {text!r}: a reference stands alone, as in policy: ${{STAGE}}")
            if matched is None:
                continue
            if (matched["before"] or "") != (lead := _LEADS.get(_place(kind, path), "")):
                raise BadInput(f"{source}: {key} = {text!r}: expected {lead}${{STAGE}}")
            after = matched["after"] or ""
            if after and after[0] != _FOLLOWS.get(wants, "")[:1]:
                what = f"only {_FOLLOWS[wants]}" if wants in _FOLLOWS else "nothing"
                raise BadInput(f"{source}: {key} = {text!r}: {what} can follow a reference to a {wants}")
            found.append(Reference(key, matched["stage"], wants, after if wants == RUN else ""))
    return tuple(found)


def replace_references(value: Any, given: Callable[[str], str]) -> Any:
    """The same values with what `given` says of a stage in the place of each reference to it."""
    if isinstance(value, str):
        return ",".join(_replaced(part, given) for part in addresses(value)) if "${" in value else value
    if isinstance(value, Mapping):
        return {key: replace_references(inner, given) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [replace_references(inner, given) for inner in value]
    return value


def addresses(policies: str) -> list[str]:
    """The policies of a search: one, or several separated by commas."""
    return split_policies(policies)


def stage_named(policy: str) -> str | None:
    """The stage that an address refers to, None where it refers to none."""
    matched = _REFERENCE.fullmatch(policy)
    return matched["stage"] if matched else None


def _replaced(part: str, given: Callable[[str], str]) -> str:
    matched = _REFERENCE.fullmatch(part)
    if matched is None:
        return part
    return (matched["before"] or "") + given(matched["stage"]) + (matched["after"] or "")


def _place(kind: str, path: tuple[str, ...]) -> str:
    starred = path[0] in ("problems", "evaluations") or (kind, path[0]) in _STARRED
    return ".".join((kind, *("*" if i == 1 and starred else part for i, part in enumerate(path))))


def _strings(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _strings(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _strings(inner, (*path, str(index)))
