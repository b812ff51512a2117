"""How far two towns seem to be from each other."""

# EVOLVE-BLOCK-START
ACROSS = 1.0
UP = 4.0


def distance(a, b):
    return ACROSS * abs(a[0] - b[0]) + UP * abs(a[1] - b[1])


# EVOLVE-BLOCK-END
