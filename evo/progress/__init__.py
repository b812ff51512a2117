"""How far a run or a comparison is, read from its database: the one reader behind the screen, the table, the page, `evo
ui`, `frame()` and JSON.

`model` holds Progress, which reads only new rows; `snapshot` its values at one moment, without a database; `answer` a
stored answer in full.
"""
