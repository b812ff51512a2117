"""`evo report`: one self-contained page, and its plots as PNG files, from what the database holds.

reading     a run's answers and candidates in bulk, as arrays
report      what the page says: everything computed, nothing drawn
plots/      drawing, by matplotlib
page        HTML, by jinja2 with every text escaped
"""

from __future__ import annotations
