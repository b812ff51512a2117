"""The island population: what a search has found, kept in SQLite or PostgreSQL.

`store.Store` holds runs, `population.population.Population` the candidates of one problem of a run; `runs` reads both.
"""
