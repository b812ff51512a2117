"""Comparisons: several policies search the same problems under one budget of answers, with a verdict.

`plan` makes the runs, `workers` searches them in parallel, `arms` names them again; `results`, `operators` and
`summary` compute the metrics and the verdict. evo.progress reads them, and evo.report shows them.
"""
