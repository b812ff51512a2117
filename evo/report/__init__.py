"""`evo report`: one self-contained page, and its plots as PNG files, from the database.

load        a run's answers and candidates in bulk, as arrays
measures    best@k, diversity and the like, of all arms at one budget of answers
charts      what the charts show (evo.chart), for pictures and for the page
plot        the look of all pictures, and charts drawn by matplotlib
maps        pictures with cells: best fitness over iterations, archives
difference  what changed between two answers, bounded
lineage     lineages of the best answers, and the tree of their candidates
details     a section for each problem: statement, prompt, best answers
cells, tables, problem_table     the page's tables
report      all of these together, section by section
page        HTML, by jinja2 with every text escaped, and by Vega-Lite (templates/vendor)
files       writes the files: `write_report` does all of it
"""

from __future__ import annotations
