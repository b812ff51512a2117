"""What bench/soak.py searches in the sandbox: a text with many digits, all different."""

statement = "Write digits."
seed_answer = "0123456789 12 31"
objectives = ("digits", "variety")


def score(answer: str) -> dict[str, float]:
    found = [c for c in answer if c.isdigit()]
    return {"digits": min(1.0, len(found) / 40), "variety": len(set(zip(found, found[1:], strict=False))) / 100}
