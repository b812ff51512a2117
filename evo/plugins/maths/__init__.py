"""The field's problems of mathematics (`maths:NAME`): constructions that are scored in exact arithmetic.

tasks.yaml says what each asks for and the best value known; `problem` runs an answer in the sandbox and measures its
construction here, by the function that `family` names for it.
"""
