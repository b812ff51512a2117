"""The field's problems of mathematics (`maths:NAME`): constructions that are scored in exact arithmetic.

Begin with `task`, which defines a problem; `problem` runs an answer in the sandbox and measures its construction here.
Each other file holds a problem, or a family of them, with its definition, source and best known value.
"""
