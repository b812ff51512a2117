"""`scripted:mutate`: a mutation operator that learns nothing and loads no model, for text, numbers and Python programs.

What it does to the parent that a prompt shows, by what that is (vpo.policies.mutation.operators chooses):

    numbers   JSON numbers, lists and objects of them, or rows of numbers: Gaussian steps of sizes from 0.3% to 100%,
              crossover and differential steps with the other answers shown
    text      characters, words or lines replaced, removed, inserted, repeated, reversed, swapped; crossover
    program   constants jittered; operators, names, conditions, expressions and statements changed on the syntax tree;
              functions and expressions taken from other answers. Only between EVOLVE-BLOCK marks where there are any
    route     a maze's moves changed (scripted:classic knows mazes)

It reads no task and understands nothing: it is a baseline, and what finds a way where no model can be had. Problems
whose first answer is written by understanding the task (most programming problems) are beyond it.
"""
