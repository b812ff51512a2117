"""A scoring function of one's own: evo run examples/scorers/short_primes.py"""

from problems import AnswerError

statement = "Write a short Python expression in n that gives many distinct primes for n = 0, 1, 2, ..., 39."
seed_answer = "n + 2"


def score(answer: str) -> dict[str, float]:
    try:
        values = {eval(answer, {"n": n}) for n in range(40)}
    except Exception as error:
        raise AnswerError(f"{type(error).__name__}: {error}") from None
    primes = [v for v in values if type(v) is int and 1 < v < 10**6 and all(v % d for d in range(2, int(v**0.5) + 1))]
    return {"primes": len(primes) / 40, "brevity": 1 / (1 + len(answer) / 20)}
