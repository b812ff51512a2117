"""A page over databases of runs, served to a browser of this machine (`evo ui`).

`databases` reads by evo.progress, `pages` chooses what is shown, `server` answers requests. A
model's text is never markup: every text is escaped, with all characters visible (evo.report.page).
"""
