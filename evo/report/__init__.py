"""`evo report`: one self-contained page, and its plots as PNG files, from the database.

load        a run's answers and candidates in bulk, as arrays
measures    best@k, diversity and the like, of all arms at one budget of answers
charts      the charts (evo.chart), for pictures and for the page
plot        the look of all pictures, and charts drawn by matplotlib
maps        pictures with cells: best fitness over iterations, archives
difference  the difference of two answers, bounded
lineage     lineages of the best answers, and the tree of their candidates
details     a section for each problem: statement, prompt, best answers
candidates  the candidates that can be opened: the browser's rows and the nodes of the trees
cells, tables, problem_table     the page's tables
report      all of these together, section by section
page        HTML, by jinja2 with every text escaped; its charts by Vega-Lite (templates/vendor)
files       writes the files: `write_report` does all of it
"""

from __future__ import annotations
