"""Statistics of a comparison: intervals over problems, paired tests, and the verdict. Values are (P, S): P problems,
the unit of every interval and test, under S seeds. Two kinds of seeds:

- By default a problem's seeds repeat one search by one fixed policy, independently of other problems (nested seeds).
  They are averaged. The spread of the averages already includes the noise of the seeds; adding it would count it twice
  (Davison and Hinkley, Bootstrap Methods, 1997, section 3.8).
- `crossed_seeds=True` if a seed acts on all problems at once, because it trained the policy or because the policy
  learns from all problems while it searches. Then the variance includes that of problems and that of seeds (Cameron,
  Gelbach and Miller 2011), and few seeds make wide intervals.

For a single problem, intervals and tests are over its seeds and hold for that problem only. A single problem under one
seed has neither.
"""
