"""Prompt formats: how a problem, a parent and its neighbours are put to a policy, and how its answer is read.

Begin with `contract`. `registry` opens a format by its name: `chat`, `openevolve`, a token language, or tuned numbers.
"""
