"""`evo check`: a red team for a scorer, before money is spent on a search of it.

`check` is the table of contents: it opens a problem as a Subject and asks each kind of check, one file each, for its
findings. An attack is an answer like any other: it runs where the problem runs answers, in the sandbox, and nowhere
else. `record` keeps what was found, for `evo run` to warn of.
"""
