"""Priority rules, and portfolios of them: formulas over named features that say what comes next in a simulator."""
