"""Hostile programs by families: one idea, over all the calls, files, signals, sizes and ways in which it can be had.

The suite runs a sample of them, `python -m bench.hostile` all. Where a program's own word is no proof, what it must not
have done is looked at from outside (bench.hostile): files, sockets and processes of the machine.
"""

from __future__ import annotations

import of_resources
import of_the_kernel
from table import Hostile


def generate() -> list[Hostile]:
    """All of them, whose names are unique."""
    return [*of_the_kernel.generate(), *of_resources.generate()]
