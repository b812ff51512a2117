"""The public Python API, which the package `evo` exports: the verbs of the command line as functions.

Begin with `run`. Each function checks its arguments (`arguments`) and hands its work (`drive`) to an event loop in a
thread, while the caller's thread shows progress and obeys Ctrl-C (`background`). It returns a result that
reads the database (`result`, `comparison_result`). So they work in a script, in a notebook and inside a running loop.
The command line drives the same work in the foreground. `ask_tell` is the search without a policy.
"""
