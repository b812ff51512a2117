"""The page of a run or a comparison: one self-contained HTML file (`evo report`), or the same page live (`evo ui`).

`page` builds and renders it from Progress, of `tables`, which are the terminal's and JSON's too, and of `answers` with
their charts.
"""
