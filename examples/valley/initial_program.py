"""Find the lowest point of a valley with many dips, within a budget of evaluations."""

import random


# EVOLVE-BLOCK-START
def search(height, evaluations):
    """Return the best (x, y) in [-4, 4] x [-4, 4] after at most `evaluations` calls of height(x, y)."""
    best, lowest = (0.0, 0.0), height(0.0, 0.0)
    for _ in range(evaluations - 1):
        x, y = random.uniform(-4, 4), random.uniform(-4, 4)
        z = height(x, y)
        if z < lowest:
            best, lowest = (x, y), z
    return best


# EVOLVE-BLOCK-END


def run(height, evaluations):
    return search(height, evaluations)
