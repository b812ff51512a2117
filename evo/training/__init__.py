"""Training of a policy by reward, on its own answers, on stored traces, or during a search.

Read in this order: `loop` is the step that all trainings share, and the contract of a source of groups; `on_policy`
samples them (`curriculum` chooses problems and parents), `stored` reads them from stored searches, and `improve` writes
examples from those; `colocated` learns during a search. `setup` makes a training from a configuration, `directory` is
its files, and `display` its bar on a terminal.
"""
