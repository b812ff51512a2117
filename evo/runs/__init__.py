"""Runs: a configuration becomes a stored search with its policy, problems and learner, ready to start.

Begin with `launch`. `resume` continues a stored run, `learner` adds training, `result` runs a search to its end.
"""
