"""Mazes, the VPO paper's and larger ones: board and walk, exact optimum, planner, problems and their sets."""
