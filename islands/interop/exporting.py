"""A problem of a run as a checkpoint of OpenEvolve, for its visualizer, or for OpenEvolve to continue.

Every candidate that was ever stored is a program on its birth island, so the whole tree is visible; OpenEvolve drops
programs beyond its population_size when it adds the next one. A candidate that is on a further island (a seed, a
migrant) has a copy there with a separate id, as in OpenEvolve's migrations. Imported programs are written as they were
read; if nothing was added since, the checkpoint is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy import select

from islands.db.schema import Answer, Candidate, ImportedProgram, PolicyVersion, PromptGroup, Rollout
from islands.db.store import Store
from islands.interop.checkpoint import write_checkpoint
from islands.interop.metrics import FITNESS, OWN
from islands.interop.outline import Copy, OutlineLine, outline
from islands.interop.record import unpack
from islands.types import ProblemRecord, RunRecord

PAGE = 500
TEMPLATE = "prompt"
"""The name of our prompts in the visualizer; OpenEvolve's prompts are named after its templates."""
MOST_VALUES = 100
"""Values of a feature that OpenEvolve keeps in addition to its range."""


class CheckpointExport:
    """One problem, read when it is made; candidates that are stored later are left out.

    number: OpenEvolve's iteration, which names the folder; programs: how many there are, copies too
    """

    def __init__(self, store: Store, run: RunRecord, problem: ProblemRecord) -> None:
        self._store = store
        self._run = run
        self._problem = problem
        self._outline = outline(store, problem)
        self._record = self._metadata()
        self.number = int(self._record.get("last_iteration") or 0)

    @property
    def candidates(self) -> int:
        return len(self._outline.lines)

    @property
    def copies(self) -> int:
        """Programs that the export adds for candidates on further islands."""
        return len(self._outline.copies)

    def folder(self, into: Path) -> Path:
        """The folder for the checkpoint: `into` itself if its name is a checkpoint's, else OpenEvolve's usual place
        in it."""
        if into.name.startswith("checkpoint_"):
            return into
        return into / "checkpoints" / f"checkpoint_{self.number}"

    def write(self, folder: Path) -> int:
        """Write it; how many programs. Raises FileExistsError, OSError."""
        return write_checkpoint(folder, self._record, self.programs(), self._record.get("best_program_id"))

    # -- metadata.json

    def _metadata(self) -> dict[str, Any]:
        stored = self._outline
        before: Mapping[str, Any] = stored.record or {}
        if stored.untouched:
            return dict(before)
        members, islands = stored.members(), stored.islands
        generations = [*before.get("island_generations", ())][:islands]
        generations += [0] * (islands - len(generations))
        generations = [count + stored.own.get(island, 0) for island, count in enumerate(generations)]
        last = before.get("last_migration_generation", 0)
        if stored.migration[0] > stored.imported:
            now = max(stored.groups.values(), default=0)
            last = max(0, max(generations) - (now - stored.migration[1]))  # as long ago as it is in our count
        best = self._problem.best
        return {
            **before,
            "island_feature_maps": self._cells(islands),
            "islands": members,
            "archive": self._archive(),
            "best_program_id": None if best is None or best not in stored.lines else stored.id_of(best),
            "island_best_programs": self._fittest(islands),
            "last_iteration": self._iteration(stored.iterations - 1),
            "current_island": sum(stored.groups.values()) % islands,
            "island_generations": generations,
            "last_migration_generation": last,
            "feature_stats": {**before.get("feature_stats", {}), **self._ranges()},
        }

    def _cells(self, islands: int) -> list[dict[str, str]]:
        maps: list[dict[str, str]] = [{} for _ in range(islands)]
        for cell in self._outline.elites:
            if cell.candidate in self._outline.lines:
                maps[cell.island][cell.cell] = self._outline.id_of(cell.candidate, cell.island)
        return maps

    def _archive(self) -> list[str]:
        """The fittest elites, as many as OpenEvolve's archive holds."""
        stored = self._outline
        size = self._run.config.get("population", {}).get("archive_size") or 100
        held = {stored.id_of(c.candidate, c.island): c.fitness for c in stored.elites if c.candidate in stored.lines}
        return sorted(held, key=lambda id: -held[id])[:size]

    def _fittest(self, islands: int) -> list[str | None]:
        stored = self._outline
        best: list[tuple[tuple[bool, float], str] | None] = [None] * islands
        for id, line in stored.lines.items():
            for island in range(islands):
                if stored.placed(id, island):
                    rank, held = (line.valid, line.fitness), best[island]
                    if held is None or rank > held[0]:
                        best[island] = (rank, stored.id_of(id, island))
        return [None if held is None else held[1] for held in best]

    def _ranges(self) -> dict[str, Any]:
        """Ranges of the grid's features, except of diversity, which OpenEvolve measures by another distance."""
        stats: dict[str, Any] = {}
        for place, name in enumerate(self._problem.dimensions or ()):
            values = [line.measures[place] for line in self._outline.lines.values() if len(line.measures) > place]
            if values and name != "diversity":
                known = name.removeprefix("reward:")
                stats[known] = {"min": min(values), "max": max(values), "values": values[-MOST_VALUES:]}
        return stats

    # -- programs/

    def programs(self) -> Iterator[dict[str, Any]]:
        """The contents of the files, one page of texts in memory at a time."""
        copies: dict[int, list[Copy]] = {}
        for copy in self._outline.copies:
            copies.setdefault(copy.candidate, []).append(copy)
        own = [id for id, line in self._outline.lines.items() if not line.origin]
        pages = (self._page(own[start : start + PAGE]) for start in range(0, len(own), PAGE))
        for id, program in chain(self._imported(), *pages):
            yield program
            for copy in copies.pop(id, ()):
                yield self._copied(program, copy)

    def _imported(self) -> Iterator[tuple[int, dict[str, Any]]]:
        if self._outline.record is None:
            return
        query = (
            select(
                ImportedProgram.c.position,
                ImportedProgram.c.candidate_id,
                ImportedProgram.c.sequence,
                ImportedProgram.c.record,
            )
            .where(ImportedProgram.c.problem_id == self._problem.id)
            .order_by(ImportedProgram.c.position)
            .limit(PAGE)
        )
        after = -1
        while True:
            # one query per table: without statistics, a planner gets a join of all of them wrong
            with self._store.read() as connection:
                rows = connection.execute(query.where(ImportedProgram.c.position > after)).all()
                ids = {row.candidate_id for row in rows}
                named = select(Candidate.c.id, Candidate.c.text).where(Candidate.c.id.in_(ids))
                texts = {id: text for id, text in connection.execute(named)}
                sequences = [row.sequence for row in rows if row.sequence is not None]
                asked = {
                    row.sequence: row
                    for row in connection.execute(
                        select(
                            PromptGroup.c.sequence, PromptGroup.c.id, PromptGroup.c.system, PromptGroup.c.user
                        ).where(PromptGroup.c.run_id == self._run.id, PromptGroup.c.sequence.in_(sequences))
                    )
                }
                given = select(Rollout.c.group_id, Rollout.c.text).where(
                    Rollout.c.group_id.in_([row.id for row in asked.values()])
                )
                responses = {group: text for group, text in connection.execute(given)}
            for row in rows:
                group = asked.get(row.sequence)
                exchange = ("", "", "") if group is None else (group.system, group.user, responses[group.id])
                yield row.candidate_id, unpack(row.record, texts[row.candidate_id], *exchange)
            if len(rows) < PAGE:
                return
            after = rows[-1].position

    def _page(self, ids: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        query = (
            select(Candidate.c.id, Candidate.c.text, Candidate.c.feedback, Candidate.c.error, Candidate.c.group_id)
            .where(Candidate.c.id.in_(ids))
            .order_by(Candidate.c.id)
        )
        with self._store.read() as connection:
            rows = connection.execute(query).all()
            group_ids = sorted({row.group_id for row in rows if row.group_id is not None})
            asked = {
                row.id: row
                for row in connection.execute(
                    select(
                        PromptGroup.c.id, PromptGroup.c.iteration, PromptGroup.c.system, PromptGroup.c.user,
                        PromptGroup.c.prefill, PolicyVersion.c.version,
                    )
                    .join(PolicyVersion, PolicyVersion.c.id == PromptGroup.c.policy_version_id)
                    .where(PromptGroup.c.id.in_(group_ids))
                )
            }  # fmt: skip
            responses = {
                candidate: text
                for candidate, text in connection.execute(
                    select(Answer.c.candidate_id, Rollout.c.text)
                    .join(Rollout, Rollout.c.id == Answer.c.rollout_id)
                    .where(Rollout.c.group_id.in_(group_ids), Answer.c.repeat.is_(False))
                )
            }
        for row in rows:
            yield row.id, self._program(row, asked.get(row.group_id), responses.get(row.id))

    def _program(self, row: Any, asked: Any | None, response: str | None) -> dict[str, Any]:
        stored = self._outline
        line = stored.lines[row.id]
        parent = stored.lines.get(line.parent) if line.parent is not None else None
        own = {
            "run": self._run.name,
            "candidate": row.id,
            "policy_version": asked.version if asked is not None else None,
            "objectives": list(self._problem.objectives),
            "rewards": list(line.rewards),
            "fitness": line.fitness,
            "features": dict(line.features),
            "error": row.error,
        }
        metadata: dict[str, Any] = {"island": line.island, OWN: own}
        if asked is not None:
            metadata["changes"] = f"written by {asked.version}"
        if parent is not None:
            metadata["parent_metrics"] = self._metrics(parent)
        artifacts = {"feedback": row.feedback, "error": row.error}
        shown = {key: text for key, text in artifacts.items() if text}
        prompts: dict[str, Any] = {}
        if asked is not None:
            responses = [] if response is None else [response]
            prompts[TEMPLATE] = {"system": asked.system, "user": asked.user, "responses": responses}
            if asked.prefill:
                prompts[TEMPLATE]["prefill"] = asked.prefill
        return {
            "id": stored.id_of(row.id, line.island),
            "code": row.text,
            "changes_description": "",
            "language": self._language,
            "parent_id": None if parent is None else stored.id_of(line.parent, line.island),  # type: ignore[arg-type]
            "generation": line.generation,
            "timestamp": line.created,
            "iteration_found": 0 if asked is None else self._iteration(asked.iteration),
            "metrics": self._metrics(line),
            "complexity": float(len(row.text)),
            "diversity": 0.0,
            "metadata": metadata,
            "prompts": prompts,  # never null: the visualizer's page of a program cannot show one without
            "artifacts_json": json.dumps(shown) if shown else None,
            "artifact_dir": None,
            "embedding": None,
        }

    def _copied(self, program: Mapping[str, Any], copy: Copy) -> dict[str, Any]:
        metadata = {**(program.get("metadata") or {}), "island": copy.island, "migrant": True}
        return {
            **program,
            "id": copy.id,
            "parent_id": program["id"],
            "timestamp": copy.created,
            "metadata": metadata,
        }

    def _iteration(self, iteration: int) -> int:
        """OpenEvolve counts from 1; after an import the count continues from the checkpoint's."""
        before: Mapping[str, Any] = self._outline.record or {}
        return int(before.get("last_iteration") or 0) + iteration - self._outline.imported

    def _metrics(self, line: OutlineLine) -> dict[str, float]:
        """Fitness, objectives, and the features that are none of them."""
        named = dict(zip(self._problem.objectives, line.rewards, strict=True))
        return {**line.features, **named, FITNESS: line.fitness}

    @property
    def _language(self) -> str:
        return "python" if self._problem.answer_format == "python" else "text"
