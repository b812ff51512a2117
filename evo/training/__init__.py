"""Training of a policy by reward, on its own answers, on stored traces, or beside a search.

Read in this order: `loop` is what all training loops have in common, `on_policy` asks the policy for the groups of a
step (`curriculum` chooses its problems), `offline` reads them from `traces` (`trace_selection` chooses those), and
`colocated` learns beside a search (`promotion` checks a new version). `setup` makes a loop from a configuration, with
what `preparation` finds; `run_directory` is what stays on disk; `display` is what a terminal shows; `processes` is for
several that train together.
"""
