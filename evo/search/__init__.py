"""The search of problems by a policy: iterations, sampled, scored and stored, until a budget is spent.

Begin with `loop`, then `core`, which is the search without a policy, and `iteration`. `window` holds what is in flight,
`sampler` makes calls of a policy, `operators` chooses between several.
"""
