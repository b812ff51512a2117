"""A policy without search: its answers to each problem, with best@k, solve@k and diversity.

Begin with `evaluate`; `metrics` has the figures, `record` the file that -o writes and --against reads.
"""
