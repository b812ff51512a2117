"""The embedded policies: small Llamas that write answers in token languages.

contract.py has what a language offers, and finds the installed ones. Languages of mazes are in maze*.py, checkpoints
that ship in checkpoints/. What made their base policies from nothing is in commit a876c9d9.
"""
