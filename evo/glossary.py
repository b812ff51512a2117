"""The words of the screen and of the report, explained: once, where both use a word in the same sense."""

from __future__ import annotations

from collections.abc import Mapping

SHARED: Mapping[str, str] = {
    "arm": "one side of a comparison: a policy with its settings. It has the same colour and mark everywhere",
    "seed": "one repetition of a search, with its own random choices",
    "iteration": "one prompt for one problem, its sampled answers, their scores, and their places in the population",
    "mean best": "best fitness so far, averaged over searches; a search without a valid answer counts 0",
    "busy": "share of the time in which the policy was sampling; the rest is waiting for scores and for the database",
    "queue": "answers that wait for their score",
    "cells": "places of the archive that hold an answer, sorted by features; each keeps its fittest answer",
    "kept": "share of the parent's text that an answer keeps: a route's beginning and end, a program's lines",
    "copies": "answers identical to one in their prompt",
    "repeats": "answers that the search had stored before; they are not scored again",
    "alone": "answers whose prompt showed no parent",
}

PAGE: Mapping[str, str] = {
    **SHARED,
    "reference": "the arm that the others are compared with: the one named grpo, else the first",
    "answer, rollout": "a rollout is one text written by the policy; it holds one answer or a chain of several",
    "fitness, target": "fitness is the number that answers are ranked by; an answer at the target solves the problem",
    "reward vector": "an answer's value for each objective; fitness is computed from it",
    "horizon": "the last iteration that every search has reached; metrics are taken there",
    "solve rate": "share of searches solved by the horizon",
    "area": "mean solve rate over all iterations up to the horizon: 1 if everything is solved at once",
    "median time": "the iteration by which half of the searches were solved; evo compare calls it half",
    "95% interval, band": "where the value lies, judging from these problems (from the seeds, for a single problem)",
    "shown": "the difference is larger than chance explains: p is at most 0.05, and the interval excludes 0",
    "p": "how often chance would give so large a difference, corrected for the number of arms (Bonferroni)",
    "won, lost, level": "one problem against the reference: by seeds that solved it, then time, then best fitness",
    "archive L1": "mean L1 distance between the reward vectors of two answers that the archive keeps",
    "valid": "an answer that was parsed and scored without an error",
    "unreadable reply": "a rollout whose answers could not be parsed; the other kinds are errors of answers",
    "island, migration": "a part of the population that evolves separately, and a copy from one part to another",
    "parent, lineage": "the answer that a prompt asked to improve, and an answer's line of parents",
    "better": "share of answers that are better than the parent in their prompt",
    "missing": "answers that were requested and that no rollout held",
    "sampling, scoring, commit": "seconds in which the policy wrote, answers were scored, and the database stored them",
    "wall": "seconds from the start of a run to its end",
    "policy version": "a policy that learns while it searches has a new version after every update",
    "loss, kl, entropy, clipped": "the trainer's objective, distance from the start, spread, share of clipped steps",
    "only": "problems that only this arm has solved",
}
"""In the order of the page. Headings of tables explain more under the pointer."""

SCREEN: Mapping[str, Mapping[str, str]] = {
    "Everywhere": SHARED,
    "The head": {
        "solved": "searches (a problem under one seed) that reached the target, and how many there are",
        "rate [95%]": "the share solved, estimated by the curve (Kaplan-Meier), and its 95% interval",
        "ans/s, tok/s": "answers and tokens sampled per second, over all runs of the arm",
        "errors": "answers that could not be scored; the panel errors counts their kinds",
        "in flight": "iterations that have started and are not stored yet; sampled: those that wait for an older one",
        "→": "a verdict: the difference to the reference, its 95% interval over problems, and p, the chance of so large"
        " a difference by luck. It is shown if p is at most .05 and the interval excludes 0",
        "reference": "the arm that the others are compared with: the one named grpo, else the first, or --against ARM",
        "area": "in tables of evo compare: the area under the solve rate's curve, 1 if everything is solved at once",
        "half": "in tables of evo compare: the iteration by which half of the searches were solved",
    },
    "The table of problems": {
        "@12": "solved after 12 iterations (median over seeds); 1/3@12: by one seed of three; @0: by the seed answer",
        ".750": "not solved: the best fitness so far, averaged over seeds",
        "+ won": "against the reference: solved under more seeds; or under all seeds and sooner (+12it: by 12"
        " iterations); or under as many and with a higher best fitness (+.250)",
        "- lost, = level": "the opposite, and neither; as far as the searches have come",
        "curve": "how the best fitness rose; the arms of a row share one scale, whose top is the target",
        "target": "the fitness that solves the problem",
        "left out": "problems whose scorer failed count nowhere; the panel errors has the reasons",
    },
    "The panels": {
        "curves": "solve rates over iterations, with 95% bands in dots for up to three arms; curves that overlap take"
        " turns",
        "population": "the archives of the chosen problem, with a bar for each island",
        "archive L1": "archive diversity: mean L1 distance between the reward vectors of two kept answers, the sum of"
        " the differences of their components",
        "island": "a part of the population that evolves separately; migrations: answers copied from one to the next",
        "improvements": "when, arm, problem, seed (s0), iteration (#12), best fitness before and after, and the change"
        " of the reward vector against the parent",
        "operators": "share of answers better than the parent in their prompt; the columns are the parent's share of"
        " the target: <50% is from a quarter to a half",
        "copied": SHARED["copies"],
        "repeated": SHARED["repeats"],
        "no parent": SHARED["alone"],
        "training": "the metrics of each training step, the newest last",
        "loss, reward": "the loss, and the mean reward of the rollouts;"
        " behaviour_nll: mean negative log-probability of the sampled tokens",
        "kl": "how far the policy is from its start, per token",
        "clipped": "share of tokens whose update was clipped: the policy had moved too far since it sampled them",
        "grad_norm": "the norm of the gradient before clipping",
        "length": "mean tokens of a rollout; cut: the share of rollouts that the token limit cut",
        "best_of_rollout": "mean over rollouts of the best fitness of a rollout's answers; fitness: over all answers",
        "errors": "unreadable reply: a rollout without an answer that could be parsed (no fence, no moves); missing:"
        " fewer answers than requested",
        "timeout, crash": "answers that ran too long, or crashed the process that ran them",
    },
    "The detail": {
        "vector": "the answer's reward for each objective; in brackets the change against its parent",
        "lineage": "the answer, its parent, its parent's parent and so on, with their fitnesses",
        "format": "how an answer is written: text, python (in a code fence), or route (moves through a maze)",
        "found 2×": "how often it was sampled, repeats included",
    },
}
