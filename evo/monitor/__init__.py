"""What runs look like from outside while they go on, read from the database alone.

Begin with `poller`, which keeps a `snapshot` up to date; `live_cache` holds what is read only once.
"""
