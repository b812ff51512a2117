"""The page of a run or a comparison: one self-contained HTML file (`evo report`), or the same page live (`evo ui`).

`page` builds and renders it from Progress, of `tables`, and of `answers` with their charts. `terminal` prints the
summary of a comparison, and gives it as JSON.
"""
