"""Evolve a prompt: the answer is the system message of a model that sorts customers' messages.

TICKETS_URL and TICKETS_MODEL name the model that gets it, on any OpenAI-compatible server; OPENAI_API_KEY is its key if
it needs one. docs/guides/prompt.md explains the parts.
"""

import json
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor

LABELS = ("refund", "delivery", "account", "other")
statement = (
    "Write the system message of a small language model. The model then reads one message of a customer of a shop and "
    f"must reply with one word: {', '.join(LABELS[:-1])} or {LABELS[-1]}. Say how to decide, in at most 120 words."
)
seed_answer = "Which department should read this message?"
timeout = 120
isolated = False  # it asks a model over the network, and an answer is text that nothing executes

TRAIN = (
    ("I sent the shoes back two weeks ago and my card still shows the charge.", "refund"),
    ("You billed me twice for order 1188.", "refund"),
    ("The parcel has been in Leipzig since Monday.", "delivery"),
    ("The courier says no one was home, but I was.", "delivery"),
    ("The link to reset my password has expired.", "account"),
    ("Please change my e-mail address to the one below.", "account"),
    ("Do you have the blue jacket in size M?", "other"),
    ("Your new shop in the station is lovely!", "other"),
)
"""They steer the search, and the model that improves the prompt sees what went wrong with them."""
TEST = (
    ("The lamp arrived broken, I want my money back.", "refund"),
    ("The voucher was not taken off the total that I paid.", "refund"),
    ("Tracking shows no movement for five days.", "delivery"),
    ("My neighbour got my box and you sent no note.", "delivery"),
    ("I can no longer log in since I changed my phone.", "account"),
    ("Delete everything that you store about me.", "account"),
    ("Is this wool or cotton?", "other"),
    ("Are you hiring for the summer?", "other"),
)
"""Nothing of the search depends on them."""


def ask(instructions, message):
    """The model's reply to a customer's message."""
    body = {
        "model": os.environ.get("TICKETS_MODEL", "Qwen/Qwen2.5-0.5B-Instruct"),
        "messages": [{"role": "system", "content": instructions}, {"role": "user", "content": message}],
        "temperature": 0,
        "max_tokens": 200,
    }
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '-')}"}
    url = os.environ.get("TICKETS_URL", "http://127.0.0.1:8000")
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["choices"][0]["message"]["content"] or ""


def judge(instructions, examples):
    """(score, the model's reply) of each example: 1 for the right word alone, 0.5 for a sentence that names only it."""
    with ThreadPoolExecutor(len(examples)) as threads:
        replies = list(threads.map(lambda example: ask(instructions, example[0]), examples))
    results = []
    for reply, (_, label) in zip(replies, examples, strict=True):
        named = [word for word in LABELS if word in reply.lower()]
        alone = reply.strip().strip(".").lower() == label
        results.append((1.0 if alone else 0.5 if named == [label] else 0.0, reply))
    return results


def score(answer):
    if len(answer.split()) > 120:
        return {"error": "more than 120 words"}
    results = judge(answer, TRAIN)
    wrong = [
        f"{message!r} is {label}; the model replied {reply[:80]!r}"
        for (message, label), (value, reply) in zip(TRAIN, results, strict=True)
        if value < 1
    ]
    return {**{f"ticket_{n}": value for n, (value, _) in enumerate(results, 1)}, "feedback": "\n".join(wrong[:4])}


def held_out(answer):
    """One result a case, so that `evo verify` has cases to take an interval over."""
    names = [f"ticket_{n}" for n in range(1, len(TRAIN) + 1)]
    return [dict.fromkeys(names, value) for value, _ in judge(answer, TEST)]
