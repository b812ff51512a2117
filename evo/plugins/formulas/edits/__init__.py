"""`formula-edit`, the language of the small policy that changes formulas."""
