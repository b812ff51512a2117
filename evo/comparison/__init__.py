"""Comparisons: several policies search the same problems under one budget of answers, with a verdict.

`plan` makes the runs, `workers` searches them in parallel, `load` reads them back, `results` and `survival` compute the
metrics, `verdict` and `table` report them.
"""
