"""The words of the screen and of the page, explained once. Titles of tables are among them."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "arm": "one side of a comparison: a policy with its settings. It has the same colour and mark everywhere",
    "reference": "the arm that the others are compared with: the first one, or --against ARM",
    "seed": "one repetition of a search, with its own random choices",
    "iteration": "one prompt for one problem, its sampled answers, their scores, and their places in the population",
    "answer, rollout": "a rollout is one text written by the policy; it holds one answer or a chain of several",
    "fitness, target": "fitness is the number that answers are ranked by; an answer at the target solves the problem",
    "reward vector": "an answer's value for each objective; fitness is computed from it",
    "horizon": "the last iteration that every search has reached; metrics are taken there",
    "solve rate, rate": "share of searches solved by the horizon; an estimate while searches run (Kaplan-Meier)",
    "area": "mean solve rate over all iterations, or the budget, up to the horizon: 1 if everything is solved at once",
    "median time, half": "the iteration, or what was spent, by which half of the searches were solved",
    "mean best": "best fitness so far, averaged over searches; a search without a valid answer counts 0",
    "95% interval, band": "where the value lies, judging from these problems (from the seeds, for a single problem)",
    "shown": "the difference is larger than chance explains: p is at most 0.05, and the interval excludes 0",
    "p": "how often chance would give so large a difference, corrected for the number of arms (Bonferroni)",
    "won, lost, level": "one problem against the reference: by seeds that solved it, then time, then best fitness",
    "only": "problems that only this arm has solved",
    "left out": "problems whose scorer failed count nowhere",
    "cells": "places of the archive that hold an answer, sorted by features; each keeps its fittest answer",
    "archive L1": "mean L1 distance between the reward vectors of two answers that the archive keeps",
    "island, migration": "a part of the population that evolves separately, and a copy from one part to another",
    "parent, lineage": "the answer that a prompt asked to improve, and an answer's line of parents",
    "better": "share of answers that are better than the parent in their prompt, by the parent's share of the target",
    "kept": "share of the parent's text that an answer keeps: a route's beginning and end, a program's lines",
    "copies, copied": "answers identical to one in their prompt",
    "repeats, repeated": "answers that the search had stored before; they are not scored again",
    "alone, no parent": "answers whose prompt showed no parent",
    "missing": "answers that were requested and that no rollout held",
    "unreadable reply": "a rollout in which no answer could be read; the other kinds are errors of answers",
    "timeout, crash": "answers that ran too long, or crashed the process that ran them",
    "busy": "share of the time in which the policy was sampling; the rest is waiting for scores and for the database",
    "queue": "answers that wait for their score",
    "in flight": "iterations that have started and are not stored yet; sampled: those that wait for an older one",
    "sampling, scoring, wall": "seconds in which the policy wrote, answers were scored, and the search ran",
    "policy version": "a policy that learns while it searches has a new version after every update",
    "kl, entropy, clipped": "distance of the policy from its start, its spread, and the share of clipped tokens",
    "behaviour_nll, grad_norm": "mean negative log-probability of the sampled tokens; the gradient's norm, not clipped",
    "best_of_rollout": "mean over rollouts of the best fitness of a rollout's answers",
    "format": "how an answer is written: text, python (in a code fence), or route (moves through a maze)",
}

SIGNS: Mapping[str, str] = {
    "@12": "solved after 12 iterations (median over seeds); 1/3@12: by one seed of three; @0: by the seed answer",
    ".750": "not solved: the best fitness so far, averaged over seeds",
    "+ - =": "won, lost and level: +12it: solved 12 iterations sooner; +.250: with a higher best fitness",
    "→": "a verdict that is shown: the difference to the reference with its 95% interval over problems",
    "curve": "how the best fitness rose; the arms of a row share one scale, whose top is the target",
    "<50%": "parents whose fitness is from a quarter to a half of the target",
    "s0, #12": "seed 0, iteration 12; in brackets, the change of a value against the parent's",
    "↓, gain": "a value of which lower is better; what a new best answer is ahead of the best before it",
    "found 2×": "how often an answer was sampled, repeats included",
}
"""Of the screen."""

TRAINING: Mapping[str, str] = {
    "solve@30": "held out: share of problems that one of 30 answers solves, without a search",
    "solve@1": "held out: share of answers that solve their problem",
    "best@30": "held out: best fitness of 30 answers, mean over problems",
    "best@1": "held out: mean fitness of an answer",
    "diversity_valid": "held out: mean L1 distance between the reward vectors of two valid answers",
    "fitness": "mean fitness of the step's answers; every step has other problems",
    "refined": "share of answers that are better than the parent in their prompt",
    "length": "mean tokens of a reply; if it grows or shrinks without end, lower --lr",
    "cut": "share of replies that the token limit cut; above 0.1 raise --max-new-tokens",
    "kl": "distance from the policy that training began with, nats a token; --kl limits it",
    "policy_nll": "mean negative log-probability of the tokens learned from; near 0 all answers are alike",
    "grad_norm": "the gradient's norm before clipping",
}
"""The metrics of a training that its watchers see, in their order."""
