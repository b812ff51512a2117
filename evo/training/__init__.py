"""Training of a policy by reward, on its own answers, on stored traces, or during a search.

Read in this order: `loop` is the step that all training loops share; `on_policy` samples its groups (`curriculum`
chooses problems and parents), `stored` reads them from stored searches, and `improve` learns from examples there;
`colocated` learns during a search. `setup` makes a loop from a configuration, `run_directory` is
its files, and `display` its lines on a terminal.
"""
