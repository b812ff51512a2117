"""Every function that reads what a model or a server wrote, with texts that it accepts, from which bench.fuzz makes
those that nobody would write."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from problems.contract import Problem
from problems.identity import identity
from problems.maze.board import UnreadableRoute, parse_moves
from problems.openevolve.evolve_block import NotSpliceable, splice
from problems.programs.cases import same_output
from problems.python_syntax import code_features, strip_fence
from problems.redaction import redact
from problems.registry import families, resolve
from vpo.chain import parse, write_edits
from vpo.languages.contract import all_dialects
from vpo.servers.client import read_json
from vpo.servers.replies import Unreadable, read_reply

PARENT = """# EVOLVE-BLOCK-START
def area(a, b):
    \"\"\"The area.\"\"\"
    total = 0
    for i in range(a):
        total += b
    return total
# EVOLVE-BLOCK-END
print(area(2, 3))
"""
_PROGRAM = "```python\ndef f(x):\n    # twice\n    return x + x\n```\n---\n"
_PROGRAM += "```py\nclass A:\n    def g(self): return {1: [2]}\n```"
_EDIT = "<<<<<<< SEARCH\n    total = 0\n=======\n    total = 1\n>>>>>>> REPLACE\n"
_TEXTS = "<think>so</think><answer_1>ab 12</answer_1>\n<answer_2>x\ny</answer_2> <answer_3>z</answer_3>"
_ROUTES = "<route_1>RRDDLU</route_1> <route_2>R, D, D</route_2><route_3>right down left</route_3>"
_FIELDS = (
    "<think>a</think><citations>P1, P3</citations><answer>John</answer>",
    '<tool_call>\n{"name": "book", "parameters": {"day": "Monday", "n": [1, 2.5, null]}}\n</tool_call>',
    "<response_1><think>because</think><names>BRCA1, TP53</names></response_1><response_2><answer>x</answer>",
    "<genes>BRCA1; TP53</genes> <answer>42</answer> **final** \\boxed{7}",
)
_REPLY = json.dumps(
    {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "x = 1"},
                "finish_reason": "stop",
                "token_ids": [1, 2, 3],
                "logprobs": {"content": [{"token": "x", "logprob": -0.5, "top_logprobs": []}] * 3},
            }
        ],
        "prompt_token_ids": [1, 2],
        "usage": {"prompt_tokens": 2, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}},
    }
)
WORDS = (
    *("```", "```python\n", "~~~", "---\n", "\n\n", "\r\n", "\t", " " * 40, "<think>", "</think>", "</answer_1>"),
    *("<answer_1>", "<route_1>", "</route_1>", "<response_1>", "<tool_call>", "</tool_call>", "<answer>", "</answer>"),
    *("<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n", "# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n"),
    *("def f(x):\n", "    return ", "class A:\n", "if __name__ == '__main__':\n", "lambda: ", "# Program 2: ", '"""'),
    *("(" * 30, "[" * 30, "{" * 30, ")", "]", "}", "'", '"', "\\", "\\x", "\\N{DASH}", "f'{f'{1}'}'", "0x", "1e9999"),
    *("-" * 50, "=" * 50, "<" * 50, "1" * 500, "~" * 50, "not " * 20, "x." * 30, "@" * 30, "://a:" * 9, "Bearer "),
    *("\0", "\ufeff", "\ud800", "\udfff", "\u202e", "\u2028", "\x85", "\x0c", "İ", "ﬁ", "😀", "\U0010ffff", "e\u0301"),
    *("null", "NaN", "Infinity", "true", '{"a":', "[1,", "<|im_end|>", "<s>", "R", "D, ", "right ", "P1", "e2", "m3"),
)
"""What the mutations put in beside bytes: what any of the grammars has a meaning for, and what breaks readers."""


@dataclass(frozen=True)
class Parser:
    """read: never raises, whatever the text; seeds: texts that it makes something of"""

    name: str
    read: Callable[[str], object]
    seeds: tuple[str, ...]


def _chain(answer_format: str, answers: int, **options: object) -> Callable[[str], object]:
    return lambda text: parse(text, answer_format, answers, truncated=len(text) % 2 == 0, **options)  # type: ignore[arg-type]


def _refusing(read: Callable[[str], object], *refusals: type[Exception]) -> Callable[[str], object]:
    """A reader whose own words for no are no crash."""

    def reading(text: str) -> object:
        with contextlib.suppress(*refusals):
            return read(text)
        return None

    return reading


def _reply(text: str) -> object:
    with contextlib.suppress(Unreadable):
        return read_reply(read_json(text))
    return None


def _scored(problem: Problem) -> Callable[[str], object]:
    return lambda text: problem.score(text).check(problem)


def parsers() -> list[Parser]:
    """All of them, each once."""
    chain_seeds = {
        "python": (_PROGRAM, "```\n" + PARENT + "```", PARENT, "<answer_1>" + PARENT + "</answer_1>", _EDIT),
        "text": (_TEXTS, "a plain text", _PROGRAM),
        "route": (_ROUTES, "RRDD"),
        "tagged": (*_FIELDS, _TEXTS),
    }
    found = [
        Parser(f"chain of {answers}, {kind}", _chain(kind, answers), seeds)
        for kind, seeds in chain_seeds.items()
        for answers in (1, 3)
    ]
    edits = (_EDIT, write_edits(PARENT, PARENT.replace("total", "s")), _PROGRAM)
    found.append(Parser("edits of a program", _chain("python", 1, diff_parent=PARENT), edits))
    found.append(Parser("edits of a text", _chain("text", 1, diff_parent=PARENT), edits))
    examples = [family.example for family in families() if family.example]
    for address in ("maze:compromise/0", *examples):
        problem = resolve(address)[0]
        seeds = (problem.seed_answer() or "RRDD", *_FIELDS, "RRDDLLUU")
        found.append(Parser(f"answers of {address.split('/')[0]}", _scored(problem), seeds))
        for name, dialect in all_dialects().items():
            if dialect.understands(problem) and not address.startswith("maze:comp"):
                prompt = dialect.prompt(problem, "", 2)
                words = " ".join(dialect.vocabulary()[:60])
                reads = _chain(dialect.answer_format, 3, prompt_format=name, prompt=prompt)
                found.append(Parser(f"chain in {name}", reads, (words, prompt, words[::2])))
    marked = (PARENT, "def area(a, b):\n    return a * b\n", f"```python\n{PARENT}```")
    found += [
        Parser("EVOLVE-BLOCKs", _refusing(lambda text: splice(PARENT, strip_fence(text)), NotSpliceable), marked),
        Parser("code fences", lambda text: strip_fence(text, wanted="area"), (_PROGRAM, *marked)),
        Parser("features of programs", code_features, (PARENT, "x = [1, 2]\n")),
        Parser(
            "identities", lambda text: [identity(text, kind) for kind in ("python", "text", "route", "tagged")], marked
        ),
        Parser("moves of a route", _refusing(parse_moves, UnreadableRoute), ("RRDD", "right, down", "R\nD")),
        Parser("outputs of programs", lambda text: same_output(text, "1 2.50\nyes\n"), ("1 2.5\nYES", "0.1\n" * 9)),
        Parser("replies of servers", _reply, (_REPLY, '{"error": {"message": "no"}}', "[]")),
        Parser("hidden secrets", redact, ("postgresql://u:p@h/d http://a@b?key=c Bearer aaaaaaaaaaaaaaaaaaaa", _REPLY)),
    ]
    return found
