"""The search of problems by a policy: prompt groups, sampled, scored and stored, until a budget is spent.

Begin with `loop`, then `iteration`, which is one prompt group. `sampler` is the contract of the two kinds of batching;
`core` is the search without a policy; `operators` chooses between several policies.
"""
