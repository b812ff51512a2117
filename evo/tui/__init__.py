"""The live screen of a search or a comparison.

In the order of what happens: `evo.monitor.poller` makes a snapshot, `frame` draws it as lines, `terminal` paints the
lines that changed, `keys` and `view` say what a key does, and `screen` runs all of it beside a search.
"""
