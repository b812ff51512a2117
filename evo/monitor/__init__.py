"""Live data of runs, read only from the database.

Begin with `poller`, which keeps a `snapshot` up to date; `live_cache` holds data that is read only once.
"""
