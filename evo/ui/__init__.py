"""A page over databases of runs, served to a browser of this machine (`evo ui`).

`databases` reads, by the same read model as the screen (evo.monitor); `pages` turns what was read into HTML, `server`
answers requests. Nothing that a model wrote is markup: every text is escaped and made visible (evo.report.page).
"""
