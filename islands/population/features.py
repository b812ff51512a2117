"""From an answer to a cell: its features, and how the range of each is cut into bins.

Features: `complexity` is the length in characters, `score` the fitness, `reward:NAME` one objective, `rewards` all of
them, and any other name a feature from the scorer. `diversity` is the mean distance to a fixed set of reference
answers, as in OpenEvolve, but cheaper and steadier: an answer is sketched once as the histogram of its hashed byte
trigrams, distance is half the L1 difference of two histograms (0 equal, 1 nothing in common), and the references are
the first valid answers, never exchanged. Its cost is bounded: at most SKETCHED_BYTES are read, whatever the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from problems.contract import Score, ScorerFault

SKETCHED_BYTES = 16_384
SKETCH_BUCKETS = 128
MOST_SUPPLIED = 3
"""A scorer's features span the grid by default only up to this many: ten bins each, and the cells explode."""

_LARGEST = float(np.finfo(np.float64).max)

Cell = tuple[int, ...]


def default_dimensions(features: Sequence[str]) -> tuple[str, ...]:
    """The dimensions of a grid whose configuration names none, from the features that the scorer gave the first valid
    answer: those, by name, if there are one to three, else complexity and diversity."""
    if 1 <= len(features) <= MOST_SUPPLIED:
        return tuple(sorted(features))
    return ("complexity", "diversity")


def sketch(text: str) -> npt.NDArray[np.float64]:
    """(SKETCH_BUCKETS,) histogram of hashed byte trigrams, summing to 1; all zero for fewer than three bytes."""
    data = np.frombuffer(text[:SKETCHED_BYTES].encode("utf-8", "surrogatepass")[:SKETCHED_BYTES], dtype=np.uint8)
    if len(data) < 3:
        return np.zeros(SKETCH_BUCKETS)
    codes = data.astype(np.uint32)
    trigrams = (codes[:-2] << 16 | codes[1:-1] << 8 | codes[2:]) * np.uint32(2654435761)  # Knuth's multiplier, mod 2^32
    counts = np.bincount(trigrams >> 25, minlength=SKETCH_BUCKETS)  # top 7 of 32 bits = 128 buckets
    return counts / len(trigrams)


def check_features(score: Score, dimensions: Sequence[str], problem: str) -> None:
    """Raise ScorerFault if the scorer did not give a feature that the grid needs."""
    for name in dimensions:
        built_in = name in ("complexity", "diversity", "score") or name.startswith("reward:")
        if name not in score.features and not built_in:
            raise ScorerFault(
                f"{problem}: the grid is spanned by {name!r}, which the scorer did not give "
                f"(it gave {', '.join(sorted(score.features)) or 'no features'}); return it for every valid answer, or "
                "set feature_dimensions to others: complexity, diversity, score, rewards or reward:NAME"
            )


class FeatureSpace:
    """Measures answers and cuts the measures into bins by min-max scaling.

    A range grows when a value falls outside, and then by half a bin more than needed on that side. Members have to be
    placed again at each growth; the head-room makes each widen the span by a constant factor, so that any sequence
    of n values, even of ever longer answers, causes O(log span) growths, not O(n). Half a bin keeps the outermost bins
    in use.
    """

    def __init__(
        self, objectives: Sequence[str], bins_of: Callable[[tuple[str, ...]], tuple[int, ...]], reference_size: int
    ) -> None:
        """Without dimensions until `settle`. `bins_of` gives the bins of each dimension (PopulationConfig.bins)."""
        self.dimensions: tuple[str, ...] | None = None
        self.bins: tuple[int, ...] = ()
        self.low: list[float] = []
        self.high: list[float] = []
        self._objectives = {name: i for i, name in enumerate(objectives)}
        self._bins_of = bins_of
        self._most_references = reference_size
        self._references = np.zeros((0, SKETCH_BUCKETS))

    def settle(self, dimensions: Sequence[str]) -> None:
        """Fix the dimensions, for good: `rewards` is one `reward:NAME` per objective. Raises ValueError for a reward
        that is not among the objectives."""
        every = [f"reward:{name}" for name in self._objectives]
        dimensions = [part for name in dimensions for part in (every if name == "rewards" else [name])]
        for name in dimensions:
            if name.startswith("reward:") and name not in every:
                raise ValueError(f"feature_dimensions: {name!r}, but the objectives are {', '.join(self._objectives)}")
        self.dimensions = tuple(dimensions)
        self.bins = self._bins_of(self.dimensions)
        self.low = [np.inf] * len(dimensions)
        self.high = [-np.inf] * len(dimensions)

    @property
    def references_missing(self) -> int:
        """How many of the next valid answers will be references of diversity."""
        if self.dimensions is None or "diversity" not in self.dimensions:
            return 0
        return self._most_references - len(self._references)

    def add_reference(self, text: str) -> None:
        """Take a stored answer as a reference; the caller gives them in the order in which they were stored."""
        self._references = np.vstack([self._references, sketch(text)])

    def measure(self, text: str, score: Score) -> tuple[float, ...]:
        """(f,) raw feature values of a valid answer, in the order in which they are stored: it becomes a reference of
        diversity while some are missing. A scorer's feature wins over a built-in one. The first answer's features
        decide the grid unless the configuration did. Needs check_features."""
        if self.dimensions is None:
            self.settle(default_dimensions(tuple(score.features)))
        assert self.dimensions is not None
        shape = sketch(text) if "diversity" in self.dimensions else np.zeros(SKETCH_BUCKETS)
        values = []
        for name in self.dimensions:
            if name in score.features:
                value = float(score.features[name])
            elif name == "complexity":
                value = float(len(text))
            elif name == "score":
                value = score.fitness
            elif name == "diversity":
                value = float(np.abs(self._references - shape).sum() / max(1, 2 * len(self._references)))
            else:
                value = score.rewards[self._objectives[name[7:]]]
            values.append(value)
        if self.references_missing > 0:
            self._references = np.vstack([self._references, shape])
        return tuple(values)

    def observe(self, values: Sequence[float]) -> bool:
        """Let the ranges include `values`; True if one grew, after which every member must be placed again."""
        grew = False
        for i, value in enumerate(values):
            low, high = self.low[i], self.high[i]
            if low <= value <= high:
                continue
            grew = True
            if low > high:  # the first value
                self.low[i] = self.high[i] = value
            elif value > high:
                room = (value / self.bins[i] - low / self.bins[i]) / 2 if low < high else 0.0
                self.high[i] = min(value + room, _LARGEST)
            else:
                room = (high / self.bins[i] - value / self.bins[i]) / 2 if low < high else 0.0
                self.low[i] = max(value - room, -_LARGEST)
        return grew

    def cell(self, values: Sequence[float]) -> Cell:
        """(f,) bin numbers. Values outside the range count as its ends; a range of one value is all middle."""
        cell = []
        for value, low, high, bins in zip(values, self.low, self.high, self.bins, strict=True):
            # halves, because the difference of two finite floats may overflow; that of two subnormal ones may be zero
            span = high / 2 - low / 2
            share = (value / 2 - low / 2) / span if span > 0 else 0.5
            cell.append(min(bins - 1, max(0, int(share * bins))))
        return tuple(cell)
