"""VPO and its baselines inside TRL: GRPOTrainer with another advantage and no other change.

    VPOTrainer(model, score=lambda row, answer: (0.2, 1.0), answers=3, args=GRPOConfig(...), train_dataset=rows).train()

For users of TRL. This project's trainer (vpo.training.trainer) is faster if rollouts share long prompts, and only it
trains on a search's traces. The two share one function for the advantages (vpo.training.examples); on one batch
their losses and gradients are equal, with

    TRL                                       PolicyTrainer
    loss_type="dapo" or "bnpo"                always                    (dapo: over a whole generation batch)
    epsilon=0.2, epsilon_high=0.2             always
    beta, use_bias_correction_kl=False        kl
    vllm_importance_sampling_mode=            truncate
      "token_truncate", ..._clip_max=C

and these differences: the log-probabilities recorded while sampling enter TRL's ratio only under use_vllm. Otherwise
TRL compares with the policy as it was when the batch was generated (recomputed), or with itself (ratio 1) if every
generated batch is used up in one optimiser step; PolicyTrainer always compares with the recorded ones. A group whose
rollouts are all worth the same counts in TRL's mean over tokens, and is held to the reference by beta; PolicyTrainer
leaves it out. scale_rewards, reward_weights and multi_objective_aggregation have no effect here: the method decides the
advantages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from problems.contract import Score, ScorerFault
from problems.identity import identity
from problems.types import Prompt, Rollout, ScoredAnswer, ScoredGroup, ScoredRollout
from vpo.advantage import METHODS, ONLY_HERE, whitening
from vpo.chain import parse_chain
from vpo.hf.rows import leave_cudnn_attention
from vpo.policies.encoding import read_prompt_format
from vpo.scalarize import WeightSampler
from vpo.training.config import Estimation
from vpo.training.examples import counted_fitness, group_advantages, token_advantages

try:
    from accelerate.utils import gather_object
    from trl import GRPOTrainer
except ImportError as error:
    raise ImportError("vpo.trl needs TRL: pip install 'evo-search[trl]'") from error

DataRow = dict[str, Any]
"""A row of the training set, with its "prompt"."""


def best_of_rollout(**_: Any) -> list[float | None]:
    """The fitness of a rollout's best answer: the name under which TRL logs what _calculate_rewards returns."""
    raise RuntimeError("VPOTrainer scores answers itself")


class VPOTrainer(GRPOTrainer):
    """TRL's GRPOTrainer over chains of answers with reward vectors.

    score: (row, answer) -> the answer's reward vector (d,), one d for all answers of a row, higher is better, of any
        sign (vpo.advantage; maxrl takes none below 0); or a problems.contract.Score. An answer that is missing is worth
        the least of its group, and at most 0. An exception stops the training
    method: a row of vpo.advantage.METHODS, without those that need what a search held (vpo.advantage.ONLY_HERE)
    answers: m, the most answers a completion may hold; None = 3 for the methods of chains, else 1. The prompts must
        request them (vpo.chain.instructions has the words)
    scalar: (d,) deployment weighting, which gives a vector's fitness; the mean if None
    answer_format: one of problems.contract.ANSWER_FORMATS; decides how answers are read and when two are the same
    parse: (row, text) -> the answers in a completion; vpo.chain.parse if None
    samples, alpha, sampler: of the weights for a group, drawn from args.seed and the group's place
    others: GRPOTrainer's (args, train_dataset, processing_class, peft_config, ...)
    """

    _tag_names = ["trl", "grpo", "vpo"]
    _name = "VPO"
    _paper: dict[str, str] = {}

    def __init__(
        self,
        model: Any,
        *,
        score: Callable[[DataRow, str], Sequence[float] | Score],
        method: str = "vpo",
        answers: int | None = None,
        scalar: Sequence[float] | None = None,
        answer_format: str = "text",
        parse: Callable[[DataRow, str], Sequence[str]] | None = None,
        samples: int = 100,
        alpha: float = 1.0,
        sampler: WeightSampler = "sobol",
        **others: Any,
    ) -> None:
        if method not in METHODS or method in ONLY_HERE:
            known = ", ".join(name for name in METHODS if name not in ONLY_HERE)
            raise ValueError(f"no method {method!r} for TRL; there is {known}")
        self.answers = answers or (3 if METHODS[method].chain else 1)
        if self.answers > 1 and not METHODS[method].chain:
            raise ValueError(f"{method} learns from single answers: answers must be 1, not {self.answers}")
        if "reward_funcs" in others:
            raise ValueError("VPOTrainer takes `score`, one function from an answer to its vector, not reward_funcs")
        self.score = score
        self.scalar = None if scalar is None else np.asarray(scalar, dtype=np.float64)
        self.answer_format = answer_format
        self.parse = parse
        leave_cudnn_attention()
        super().__init__(model, reward_funcs=[best_of_rollout], **others)
        self.estimation = Estimation(
            method=method, weightings=samples, alpha=alpha, sampler=sampler, seed=self.args.seed
        )
        made: Any = self.model
        self.prompt_format = read_prompt_format(made.config, "of the trainer")
        self._credit: list[np.ndarray] = []  # (T,) for every completion of the current batch, all processes'

    def _calculate_rewards(
        self, inputs: list[DataRow], prompts: list[Any], completions: list[Any], completion_ids_list: list[list[int]]
    ) -> torch.Tensor:
        """TRL's hook for (N, 1) rewards, N completions of all processes. The advantages are computed here as well,
        since only this hook has the rows; _generate_and_score_completions puts them in."""
        own = [self._score_rollout(row, ids) for row, ids in zip(inputs, completion_ids_list, strict=True)]
        rollouts = gather_object(own)
        trained: Any = self.model
        size: Any = self.num_generations if trained.training else self.num_generations_eval
        groups = [
            self._group(tuple(rollouts[i : i + size]), i // size, len(rollouts) // size)
            for i in range(0, len(rollouts), size)
        ]
        self._credit = [
            row for group in groups for row in token_advantages(group, group_advantages(group, self.estimation))
        ]
        every = np.concatenate([np.zeros(0), *self._credit]).astype(np.float64)
        if METHODS[self.estimation.method].whitened and every.any():  # a batch without advantages teaches nothing
            mean, divisor = whitening(len(every), float(every.sum()), float(every @ every))
            self._credit = [(row - mean) / divisor for row in self._credit]
        best = [max(row) for group in groups for row in counted_fitness(group).tolist()]
        return torch.tensor(best, dtype=torch.float32, device=self.accelerator.device)[:, None]

    def _generate_and_score_completions(self, inputs: list[DataRow]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        first = self.accelerator.process_index * len(inputs)
        own = self._credit[first : first + len(inputs)]
        advantages = torch.zeros(output["completion_ids"].shape)
        for row, credit in zip(advantages, own, strict=True):
            row[: len(credit)] = torch.from_numpy(np.array(credit))
        output["advantages"] = advantages[:, 0].to(output["advantages"])
        logged: Any = self._logs["advantages"]
        for _ in range(min(len(self._credit), len(logged))):
            logged.pop()
        logged.extend(float(credit.mean()) if len(credit) else 0.0 for credit in self._credit)
        return output

    def _score_rollout(self, row: DataRow, ids: list[int]) -> ScoredRollout:
        """One completion, read; its first distinct answers scored."""
        stopped = bool(ids) and ids[-1] in self.eos_token_ids
        kept = np.asarray(ids[:-1] if stopped else ids, dtype=np.int32)
        text = self._tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if self.parse is not None:
            texts = self.parse(row, text)
        else:
            chain = parse_chain(
                text,
                self.answer_format,
                self.answers,
                prompt_format=self.prompt_format,
                truncated=bool(ids) and not stopped,
            )
            texts = chain.answers
        distinct: dict[bytes, str] = {}
        for answer in texts:
            distinct.setdefault(identity(answer, self.answer_format), answer)
        answers = tuple(
            ScoredAnswer(answer, key, as_score(self.score(row, answer), answer, self.scalar))
            for key, answer in islice(distinct.items(), self.answers)
        )
        tokens = np.asarray(ids, dtype=np.int32)
        # TRL keeps prompts and log-probabilities to itself; an estimate of advantages looks at neither
        rollout = Rollout(text, tokens, np.zeros(len(ids), np.float32), tokens[:0], "stop" if stopped else "length")
        return ScoredRollout(rollout, answers)

    def _group(self, rollouts: tuple[ScoredRollout, ...], place: int, groups: int) -> ScoredGroup:
        lengths = {len(answer.score.rewards) for rollout in rollouts for answer in rollout.answers}
        if len(lengths) > 1:
            raise ScorerFault(f"score gave vectors of {' and '.join(map(str, sorted(lengths)))} rewards for one row")
        # the optimiser step and the generation within it: the same after a resume
        accumulated = self.args.gradient_accumulation_steps
        generation = self.state.global_step * accumulated + self._step % accumulated
        sequence = generation * groups + place
        return ScoredGroup(
            problem=0,
            sequence=sequence,
            iteration=generation,
            island=0,
            parent=None,
            inspirations=(),
            prompt=Prompt("", stream=sequence),
            policy_version="",
            answers=self.answers,
            seed=self.estimation.seed,
            temperature=self.temperature,
            rollouts=rollouts,
        )


def as_score(given: Sequence[float] | Score, answer: str, scalar: npt.ArrayLike | None = None) -> Score:
    """The result of a user's scorer, as a Score. Raises ScorerFault if it is not a vector of finite numbers.

    scalar: (d,) deployment weighting, which gives a vector's fitness; the mean if None
    """
    if isinstance(given, Score):
        return given
    try:
        rewards = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        rewards = np.full(1, np.nan)
    if rewards.ndim != 1 or not np.isfinite(rewards).all():
        raise ScorerFault(f"score gave {given!r} for {answer[:60]!r}; it must be a vector of finite numbers")
    weights = np.full(len(rewards), 1.0 / len(rewards)) if scalar is None else np.asarray(scalar, dtype=np.float64)
    if weights.shape != rewards.shape:
        raise ScorerFault(f"score gave {len(rewards)} rewards where scalar weighs {len(weights)}")
    return Score(tuple(rewards.tolist()), float(rewards @ weights))
