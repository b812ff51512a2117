"""The live screen of a search or a comparison, by Textual.

In the order of what happens: `screen` starts a process next to a search (`live_process`), or `shown` uses this one;
`app` is the screen, made of `widgets`; `watcher` keeps a snapshot current (evo.monitor.poller), `pages` holds
the viewer's choices, and `arrange` writes each part of the screen.
"""
