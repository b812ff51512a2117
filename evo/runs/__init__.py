"""Runs: a configuration becomes a stored search with its policy, problems and learner, ready to go.

Begin with `launch`; `resume` goes on with a stored run, `learner` joins what trains beside it, `result` is what came
of it.
"""
