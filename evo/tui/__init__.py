"""The live screen of a search or a comparison, by Textual.

In the order of what happens: `screen` starts a process beside a search (`live_process`), or `shown` takes this one;
`app` is the screen, made of `widgets`; `watcher` keeps a snapshot current (evo.monitor.poller), `pages` holds what
the viewer has chosen, and `arrange` says what each part of the screen shows. `serve` shows it in a browser.
"""
