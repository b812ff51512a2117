"""veRL's reward function: each row's ground truth is the address of one of evo's problems."""

from vpo.verl import make_reward

compute_score = make_reward("vpo", answers=3)
