"""The embedded policies: small Llamas that write answers in token languages, and how they are trained.

contract.py has what a language offers, and finds the installed ones. Languages of mazes are in maze*.py, checkpoints
that ship in checkpoints/, and `python -m vpo.languages.pretrain` makes a base policy from nothing.
"""
