"""What a policy can do without search: answers to each problem, and best@k, solve@k and diversity of them.

Begin with `evaluate`; `metrics` holds the figures, `file` what -o writes and --against reads.
"""
