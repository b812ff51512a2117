"""Runs: a configuration becomes a stored search with its policy, problems and learner, ready to go.

Begin with `launch`; `resume` continues a stored run, `learner` adds training, `result` runs it to its end.
"""
