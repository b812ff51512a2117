"""Prompt formats: how a problem, a parent and its neighbours are put to a policy, and how its answer is read.

Begin with `contract`; `chat`, `openevolve` and `maze` are the formats that there are.
"""
