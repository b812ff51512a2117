"""Comparisons: several policies search the same problems under one budget of answers, with a verdict.

`plan` makes the runs, `runner` and `workers` search them side by side, `load` reads them back, `results` and
`survival` are the figures, `verdict` and `table` what is said of them.
"""
