"""A canvas of braille characters, two dots wide and four high a cell, for several curves at once.

A terminal cell has one colour. Where curves of several arms share a cell, its dots are all shown and belong to none:
the cell says so by a style of its own, instead of claiming one arm's dots for another. Mean lines go before bands: a
cell that a line runs through shows no dots of any band.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint8)  # [row, column] in a cell
BLANK = 0x2800
NOBODY, SEVERAL = -1, -2


class Canvas:
    """width x height cells; dot (0, 0) is at the top left."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = max(1, width), max(1, height)
        self._lines: dict[int, npt.NDArray[np.uint8]] = {}
        self._bands: dict[int, npt.NDArray[np.uint8]] = {}

    @property
    def dots(self) -> tuple[int, int]:
        """How many dots there are across and down."""
        return self.width * 2, self.height * 4

    def dot(self, x: int, y: int, layer: int, band: bool = False) -> None:
        """Set one dot of a layer; one outside the canvas is not drawn."""
        across, down = self.dots
        if not (0 <= x < across and 0 <= y < down):
            return
        layers = self._bands if band else self._lines
        if layer not in layers:
            layers[layer] = np.zeros((self.height, self.width), dtype=np.uint8)
        layers[layer][y // 4, x // 2] |= _BITS[y % 4, x % 2]

    def trace(self, ys: npt.ArrayLike, layer: int, band: bool = False, every: int = 1) -> None:
        """A curve, one value for each dot across, in dots from the top; NaN leaves a gap. Neighbours are joined
        by a vertical stroke. With `every`, only each so-many-th dot: a band's edge, sparse."""
        values = np.asarray(ys, dtype=np.float64)
        before: int | None = None
        for x, value in enumerate(values.tolist()):
            if value != value:  # NaN
                before = None
                continue
            y = round(value)
            if every > 1:
                if x % every == 0:
                    self.dot(x, y, layer, band)
                continue
            low, high = (y, y) if before is None else (min(y, before), max(y, before))
            # the stroke between two values is shared between their columns, half each
            for at in range(low, high + 1):
                self.dot(x if before is None or abs(at - y) <= abs(at - before) else x - 1, at, layer, band)
            before = y

    def rows(self) -> list[list[tuple[str, int, bool]]]:
        """Each cell as (character, layer, whether it is a band's): layer NOBODY for a blank one, SEVERAL for one
        that several layers share."""
        lines, line_owner = self._merged(self._lines)
        bands, band_owner = self._merged(self._bands)
        dots = np.where(lines > 0, lines, bands)
        owner = np.where(lines > 0, line_owner, band_owner)
        is_band = (lines == 0) & (bands > 0)
        return [
            [
                (chr(BLANK + dot) if dot else " ", who, of_band)
                for dot, who, of_band in zip(dots[y].tolist(), owner[y].tolist(), is_band[y].tolist(), strict=True)
            ]
            for y in range(self.height)
        ]

    def _merged(self, layers: dict[int, npt.NDArray[np.uint8]]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        dots = np.zeros((self.height, self.width), dtype=np.uint8)
        owner = np.full((self.height, self.width), NOBODY, dtype=np.int64)
        for layer, mask in layers.items():
            there = mask > 0
            owner = np.where(there, np.where(owner == NOBODY, layer, SEVERAL), owner)
            dots |= mask
        return dots, owner
