"""`evo doctor`: is this machine ready, and if not, what is the remedy?

`doctor` is the table of contents. Each kind of check is one file of functions that return Lines, never raise because of
the machine's state, and change nothing.
"""
