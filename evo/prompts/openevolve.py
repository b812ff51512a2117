"""OpenEvolve's prompt templates, for a problem directory that was written against them.

OpenEvolve's PromptSampler builds the text, so a directory's system message, template folder and section sizes work as
they do there. Only the closing request is ours if a rollout holds several answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evo.config.run import PromptConfig
from evo.prompts.chat import MessageFormat, cut
from evo.values import write_number
from islands.types import Candidate, Selection
from problems.contract import Problem
from problems.openevolve.config import FEATURE_DIMENSIONS
from problems.shims.user_file import defer
from problems.types import Prompt
from vpo.chain import instructions

defer("openevolve")  # only its prompts are needed


class OpenEvolveFormat(MessageFormat):
    """Prompts by OpenEvolve's PromptSampler (openevolve.prompt.sampler)."""

    def __init__(self, problem: Problem, config: PromptConfig, answers: int, diff: bool):
        from openevolve.config import PromptConfig as SamplerConfig
        from openevolve.prompt.sampler import PromptSampler

        super().__init__(problem, config, answers, diff)
        self.settings: dict[str, Any] = dict(problem.settings)
        sampler = SamplerConfig(
            system_message=self.settings.get("system_message") or "system_message",
            template_dir=self.settings.get("template_dir"),
            num_top_programs=self.settings.get("num_top_programs", 3),
            num_diverse_programs=self.settings.get("num_diverse_programs", 2),
            include_artifacts=self.settings.get("include_artifacts", True),
            # its template variations draw from the process-wide random state, and one seed must give one run
            use_template_stochasticity=False,
        )
        self.sampler = PromptSampler(sampler)
        self.top = sampler.num_top_programs
        self.features = list(self.settings.get("feature_dimensions", FEATURE_DIMENSIONS))
        self.language = self.settings.get("language") or "python"

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        shown = self.select_shown(selection)
        parent = shown.parent
        feedback = "" if parent is None else self.feedback(parent)
        current = parent.text if parent is not None else self.problem.seed_answer()
        best = [self._program(c, shown) for c in shown.best]
        built = self.sampler.build_prompt(
            current_program=cut(current, self.config.max_answer_chars) if not self.diff else current,
            parent_program=current,
            program_metrics=self._metrics(parent, shown) if parent is not None else {},
            previous_programs=best,
            # not more than the sampler shows: it would draw from a longer list at random, outside the run's seed
            top_programs=best[: self.top],
            inspirations=[self._program(c, shown) for c in shown.inspirations],
            language=self.language,
            diff_based_evolution=self.diff,
            program_artifacts={"feedback": feedback} if feedback else None,
            feature_dimensions=self.features,
        )
        several = self.answers > 1
        request = "\n\n" + instructions(self.problem.answer_format, self.answers) if several else ""
        texts = self.texts_shown(shown, self.others(shown, self.top))
        return Prompt(built["user"] + request, built["system"], stream, texts)

    def _metrics(self, candidate: Candidate, shown: Selection) -> dict[str, str]:
        """As texts: the sampler rounds numbers to four decimals, and takes all for better when higher."""
        values, fitness = self.measured(candidate, shown)
        told = {name: value.replace("↓", "(lower is better)") for name, value in values.items()}
        features = {name: write_number(value) for name, value in candidate.features.items()}
        return {**features, **told, "combined_score": fitness}

    def _program(self, candidate: Candidate, shown: Selection) -> dict[str, Any]:
        code = cut(candidate.text, self.config.max_answer_chars)
        return {"id": str(candidate.id), "code": code, "metrics": self._metrics(candidate, shown), "metadata": {}}
