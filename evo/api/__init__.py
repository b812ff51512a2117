"""The public Python API, which the package `evo` exports: the verbs of the command line as functions.

Begin with `run`. Each function checks its arguments (`arguments`), runs its work on an event loop in a thread of its
own while the caller's thread shows progress and minds Ctrl-C (`background`, `progress`), and returns a result that
reads the database (`result`, `comparison_result`). So they work in a script, in a notebook and inside a running loop.
"""
