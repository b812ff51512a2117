"""Runs to and from OpenEvolve's checkpoints.

checkpoint   the folder itself: read strictly, written whole or not at all
metrics      a program's metrics as a Score, by the problem's objectives
timeline     a checkpoint's programs in the order in which a run would have stored them
adoption     answers found elsewhere, written as the history of a run
importing    all of that in one transaction
outline      a stored problem in numbers: the data that an export needs before the first program
exporting    a problem of a run as a checkpoint
"""
