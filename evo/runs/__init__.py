"""Runs: a configuration becomes a stored search with its policy, problems and learner, ready to start.

Begin with `start`. `resume` continues a stored run, `finish` runs a search to its end, `preflight` checks what was
asked for before anything is written.
"""
