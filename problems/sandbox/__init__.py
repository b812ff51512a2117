"""Runs hostile programs, and users' scorers, where they can do no harm. `child/confinement.py` says what is covered.

Begin with `pool`, which has the Sandbox; `contract` is what is asked of it and what it answers.
"""
