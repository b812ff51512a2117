"""Ten points of the unit square; the circles around the first 4, 6, 8 and all of them must not overlap."""

# EVOLVE-BLOCK-START
points = [
    (0.21, 0.33),
    (0.74, 0.27),
    (0.31, 0.81),
    (0.83, 0.72),
    (0.52, 0.48),
    (0.12, 0.62),
    (0.61, 0.91),
    (0.42, 0.12),
    (0.91, 0.45),
    (0.55, 0.65),
]
# EVOLVE-BLOCK-END
