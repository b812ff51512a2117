"""The rewards of one prompt group, in the shapes that every estimator of advantages takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vpo.scalarize import Bools, Floats


@dataclass(frozen=True)
class GroupRewards:
    """One group, as every estimator receives it.

    rewards: (G, m, d); valid: (G, m)
    weights: (K, d), the scalarizations that VPO's family shares within the group
    scalar: (d,), the deployment weighting
    taste: (d,), the one random scalarization of random_weighting for this group
    archive: (A, d), reward vectors already in the search's archive, for archive_vpo
    shown: (P, d), those of the parents in the prompt, if gains over them are rewarded; else none
    shaping: weight of an answer's value in addition to its gain
    goals: (K,), if reaching a goal is rewarded, the value that an answer must reach under each weight; inf if the
        archive has reached it already; else none
    solved: (G, m), the answers that solve the problem; they succeed under every weight
    pass_at: K of pass@K, the number of answers that a search spends on such a prompt; 0 = G
    """

    rewards: Floats
    valid: Bools
    weights: Floats
    scalar: Floats
    taste: Floats
    archive: Floats
    shown: Floats
    goals: Floats
    solved: Bools
    shaping: float = 0.0
    pass_at: int = 0

    @classmethod
    def of(
        cls,
        rewards: npt.ArrayLike,
        valid: npt.ArrayLike | None = None,
        *,
        weights: npt.ArrayLike | None = None,
        scalar: npt.ArrayLike | None = None,
        taste: npt.ArrayLike | None = None,
        archive: npt.ArrayLike | None = None,
        shown: npt.ArrayLike | None = None,
        goals: npt.ArrayLike | None = None,
        solved: npt.ArrayLike | None = None,
        shaping: float = 0.0,
        pass_at: int = 0,
    ) -> GroupRewards:
        """Fill in defaults: all answers valid, one uniform weight, the mean, no archive, no parents.

        Raises ValueError for inconsistent shapes and for numbers that are not finite.
        """
        r = np.asarray(rewards, dtype=np.float64)
        if r.ndim != 3:
            raise ValueError(f"rewards must be (G, m, d), not {r.shape}")
        d = r.shape[2]
        v = np.ones(r.shape[:2], dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
        if v.shape != r.shape[:2]:
            raise ValueError(f"valid must be {r.shape[:2]}, not {v.shape}")
        if not np.isfinite(r[v]).all():
            raise ValueError("a valid answer has a reward that is not finite")
        uniform = np.full(d, 1.0 / d)

        def rows(given: npt.ArrayLike | None, default: Floats, shape: tuple[int, ...], name: str) -> Floats:
            array = default if given is None else np.asarray(given, dtype=np.float64)
            if array.ndim != len(shape) or array.shape[-1] != d:
                raise ValueError(f"{name} must be {shape} with d = {d}, not {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} holds a number that is not finite")
            return array

        return cls(
            rewards=np.where(v[..., None], r, 0.0),
            valid=v,
            weights=rows(weights, uniform[None], (-1, d), "weights"),
            scalar=rows(scalar, uniform, (d,), "scalar"),
            taste=rows(taste, uniform, (d,), "taste"),
            archive=rows(archive, np.zeros((0, d)), (-1, d), "archive"),
            shown=rows(shown, np.zeros((0, d)), (-1, d), "shown"),
            goals=np.zeros(0) if goals is None else np.asarray(goals, dtype=np.float64),
            solved=np.zeros_like(v) if solved is None else np.asarray(solved, dtype=bool) & v,
            shaping=shaping,
            pass_at=pass_at,
        )

    @property
    def first(self) -> Floats:
        """Each rollout's first answer, (G, d); zeros if it is missing."""
        if self.rewards.shape[1] == 0:
            return np.zeros((len(self.rewards), self.rewards.shape[2]))
        return self.rewards[:, 0]
