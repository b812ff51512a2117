"""Runs: a configuration becomes a stored search with its policy, problems and learner, ready to start.

Begin with `launch`. `resume` continues a stored run, `problem_runs` has its problems and learner, `result` runs a
search to its end.
"""
