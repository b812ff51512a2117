"""Prompt formats by name: which of ours, or of an installed package's, puts a problem to a policy."""

from __future__ import annotations

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.prompts.chat import ChatFormat, WorkFolderFormat
from evo.prompts.contract import Opener, PromptFormat
from evo.prompts.tokens import TokenFormat
from evo.prompts.tuned import TunedFormat
from problems.contract import Problem
from problems.entry_points import find_entry_points, load_entry_point
from vpo.policies.prompt_formats import FORMAT_ENTRY_POINTS, TUNED, WORK_FOLDER, is_token_format


def open_format(problem: Problem, name: str, config: PromptConfig, answers: int) -> PromptFormat:
    """The prompt format of this name for a problem; BadInput if they do not go together."""
    if is_token_format(name):
        return TokenFormat(problem, config, answers, name)
    opener: Opener
    if name in OURS:
        opener = OURS[name]
    elif (point := find_entry_points(FORMAT_ENTRY_POINTS).get(name)) is not None:
        opener = load_entry_point(point, f"prompt format {name!r}")
    else:
        raise BadInput(
            f"the policy needs the prompt format {name!r}, which no installed package has ({FORMAT_ENTRY_POINTS})"
        )
    return opener(problem, config, answers)


def open_chat(problem: Problem, config: PromptConfig, answers: int) -> PromptFormat:
    """The problem's templates if it is an OpenEvolve directory, else ours. Raises BadInput if problem and
    configuration do not fit."""
    settings = problem.settings
    openevolve = config.style == "openevolve" or (config.style == "auto" and bool(settings))
    if config.style == "openevolve" and not settings:
        raise BadInput(f"prompt.style openevolve needs an OpenEvolve problem directory; {problem.name} is none")
    diff = config.diff
    if diff is None:
        diff = bool(settings.get("diff_based_evolution", False)) and answers == 1
    if diff and answers > 1:
        raise BadInput("prompt.diff edits one parent: it needs --answers 1")
    if diff and problem.answer_format == "route":
        raise BadInput(f"prompt.diff edits programs; the answers of {problem.name} are routes")
    if openevolve:
        from evo.prompts.openevolve import OpenEvolveFormat

        return OpenEvolveFormat(problem, config, answers, diff)
    return ChatFormat(problem, config, answers, diff)


OURS: dict[str, Opener] = {"chat": open_chat, WORK_FOLDER: WorkFolderFormat, TUNED: TunedFormat}
