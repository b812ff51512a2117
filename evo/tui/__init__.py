"""The live screen of a search or a comparison, by Textual.

The terminal's process is the screen (`app`). A search that it shows is its child (`child`), watched through the
database as `evo watch` watches any run. `draw`, `detail` and `plot` make what is shown of a snapshot
(evo.progress.snapshot).
"""
