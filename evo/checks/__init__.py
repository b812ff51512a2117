"""`evo check`: a red team for a scorer, before money is spent on a search of it.

`soundness.check_problem` is the table of contents: it opens a problem as a Subject and runs every check. A cheat is an
answer like any other: it runs only where the problem runs answers, in the sandbox.
"""
