"""`evo report`: one self-contained page, and its plots as PNG files, from what the database holds.

reading     a run's answers and candidates in bulk, as arrays
measures    best@k, diversity and the like, of all arms at one budget of answers
lineages     lineages of best answers, with differences
archive     grids of a few problems
cells, tables, settings     what the page's tables say
plots/      drawing, by matplotlib
report      all of these together: what the page says
page        HTML, by jinja2 with every text escaped
writing     the files: `write_report` is the whole of it
"""

from __future__ import annotations
