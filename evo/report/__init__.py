"""`evo report`: one self-contained page, and its plots as PNG files, from what the database holds.

load        a run's answers and candidates in bulk, as arrays
measures    best@k, diversity and the like, of all arms at one budget of answers
lineage     lines of the best answers, with differences
details     every problem by itself: statement, prompt, best answers
archive     grids of a few problems
cells, tables, problem_table, operators, settings     what the page's tables say
charts      what the page draws by itself, by Vega-Lite (templates/vendor), with values under the pointer
plots/      drawing of PNG files, by matplotlib
legend      every word of the page, explained
report      all of these together: what the page says
page        HTML, by jinja2 with every text escaped
files       the files: `write_report` is the whole of it
"""

from __future__ import annotations
