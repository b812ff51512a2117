"""`evo doctor`: is this machine ready, and what is the remedy where it is not?

`doctor` is the table of contents. Each kind of check is one file of functions that return Lines and raise nothing that
a machine could cause; none changes anything.
"""
