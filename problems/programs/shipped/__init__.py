"""The programming problems that ship with the package: easy.jsonl, medium.jsonl and hard.jsonl.

Functions in the MBPP shape, programs in the LiveCodeBench shape, one per line. In addition to the shape's keys each line
has `code`, a reference solution that the tests run, and `wrong`, a plausible solution that must fail some case and pass
another. Neither is ever part of a prompt.
"""
