"""The field's problems of mathematics (`maths:NAME`): constructions that are scored in exact arithmetic.

Begin with `task`, which says what a problem is; `problem` runs an answer in the sandbox and measures here what it
built. Each other file holds a problem, or a family of them, with its definition, source and best known value.
"""
