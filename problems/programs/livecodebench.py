"""The LiveCodeBench shape: `question_content`, `starter_code`, public and private test cases, `metadata.func_name`.

Answers run as in the benchmark's own harness (lcb_runner.evaluation.testing_util): after its preamble of imports, one
`Solution` object for all tests of a process.

Private tests come as JSON or as base64 of zlib of a pickled JSON string. A pickle can run code, so it is read by an
unpickler that knows no classes at all: whatever is not plain data is refused.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import io
import json
import pickle
import typing
import zlib
from collections.abc import Mapping
from typing import Any

from problems.programs.cases import MOST_COMPONENTS, CallCase, Case, StdinCase, Task, Unusable, public_examples

LARGEST_TEST = 8 << 10
"""Bytes of input and output together; larger tests are dropped."""

_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json"),
)
PREAMBLE = "".join(
    [
        *(f"from {module} import *\n" for module in (*_MODULES, "builtins", "typing")),
        *(f"import {module}\n" for module in _MODULES),
        "sys.setrecursionlimit(50000)\n",
    ]
)
"""What the harness puts before every answer, in its order: `import datetime` has the last word over the class."""

_LARGEST_PAYLOAD = 512 << 20  # what the private tests may unpack to, against a decompression bomb


def is_livecodebench(row: Mapping[str, Any]) -> bool:
    """Told by its keys."""
    return "question_content" in row and ("public_test_cases" in row or "private_test_cases" in row)


def livecodebench_task(row: Mapping[str, Any]) -> Task:
    """The task of one line. Raises ValueError with what is wrong with it."""
    metadata = _json(row.get("metadata") or "{}", "metadata")
    function = metadata.get("func_name") if isinstance(metadata, dict) else None
    starter = str(row.get("starter_code") or "").replace("\r\n", "\n")
    cases = _smallest(row, function)
    if function:
        _refuse_instances(starter, function)
    stdin = isinstance(cases[0], StdinCase)
    examples = "\n\n".join(public_examples(cases))
    parts = [str(row["question_content"]).strip()]
    if stdin:
        parts.append("Write a Python program that reads standard input and prints the answer.")
    else:
        parts.append(f"Start from:\n```python\n{starter.rstrip()}\n```")
    if examples:
        parts.append(f"For example:\n{examples}")
    return Task(
        text="\n\n".join(parts),
        seed=_PROGRAM if stdin else starter.rstrip() + "\n        pass\n",
        cases=cases,
        entry=None if stdin else function,
        setup=PREAMBLE,
        epilogue="" if stdin else _ENTRY.format(function=function),
        names=("Solution", function) if function else (),
        reference=row.get("code"),
        extra={"id": row.get("question_id"), "difficulty": row.get("difficulty"), "wrong": row.get("wrong")},
    )


_ENTRY = "_entry = Solution().{function} if 'Solution' in globals() else {function}"
_PROGRAM = "import sys\n\n\ndef main():\n    lines = sys.stdin.read().splitlines()\n\n\nmain()\n"


def _smallest(row: Mapping[str, Any], function: str | None) -> tuple[Case, ...]:
    """The MOST_COMPONENTS smallest tests, in the data set's order, public ones marked; repeats dropped."""
    found: dict[tuple[str, str], tuple[int, bool, str]] = {}
    for key, public in (("public_test_cases", True), ("private_test_cases", False)):
        for number, test in enumerate(_tests(row.get(key) or "[]", key), 1):
            try:
                pair = str(test["input"]), str(test["output"])
                kind = str(test.get("testtype", "functional" if function else "stdin"))
            except (KeyError, TypeError, AttributeError):
                raise ValueError(f"test {number} of `{key}` lacks input or output") from None
            size = len(pair[0].encode("utf-8", "replace")) + len(pair[1].encode("utf-8", "replace"))
            if size <= LARGEST_TEST:
                found.setdefault(pair, (size, public, kind))
    kept = sorted(found, key=lambda pair: found[pair][0])[:MOST_COMPONENTS]
    if not kept:
        raise Unusable(f"no test case of at most {LARGEST_TEST} bytes")
    if function is not None and not str(function).isidentifier():
        raise ValueError(f"metadata.func_name {function!r} is no name")
    cases: list[Case] = []
    for given, expected in found:  # insertion order: public first, as published
        if (given, expected) not in kept:
            continue
        _, public, kind = found[given, expected]
        if kind == "stdin":
            cases.append(StdinCase(given, expected, public))
        elif function:
            call = f"{function}({_arguments(given)})"
            cases.append(CallCase(f"_entry({_arguments(given)})", _json(expected, "output"), "json", public, call))
        else:
            raise ValueError("a functional test without metadata.func_name")
    if len({type(case) for case in cases}) > 1:
        raise ValueError("stdin and functional tests are mixed")
    return tuple(cases)


def _refuse_instances(starter: str, function: str) -> None:
    """Unusable where the signature names a class (TreeNode, ListNode): no JSON test can hold an object of it."""
    try:
        tree = ast.parse(starter.rstrip() + "\n        pass\n")
    except (SyntaxError, ValueError):
        return
    known = {*vars(builtins), *vars(typing)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != function:
            continue
        annotations = [*(argument.annotation for argument in (*node.args.args, *node.args.kwonlyargs)), node.returns]
        for annotation in filter(None, annotations):
            parts = [part for part in ast.walk(annotation) if isinstance(part, ast.Name | ast.Constant)]
            names = [str(part.id if isinstance(part, ast.Name) else part.value) for part in parts]
            if unknown := [name for name in names if name not in known]:
                raise Unusable(f"{function} takes or returns a {unknown[0]}, an object that no test in JSON can hold")


def _arguments(given: str) -> str:
    """One JSON value a line is one argument."""
    return ", ".join(_source(_json(line, "input")) for line in given.splitlines() if line.strip())


def _source(value: Any) -> str:
    """A JSON value as a Python expression."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_source, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_source(item)}" for key, item in value.items()) + "}"
    return repr(value)


def _json(text: object, what: str) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`{what}` is not JSON: {error}") from None


def _tests(packed: object, key: str) -> list[Mapping[str, Any]]:
    if isinstance(packed, str) and not packed.lstrip().startswith("["):
        packed = _unpacked(packed, key)
    tests = _json(packed, key)
    if not isinstance(tests, list):
        raise ValueError(f"`{key}` is no list of tests")
    return tests


def _unpacked(packed: str, key: str) -> str:
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(packed, validate=True), _LARGEST_PAYLOAD)
        if not stream.eof:
            raise ValueError("truncated, or larger than any test set")
        text = _PlainUnpickler(io.BytesIO(data)).load() if data[:1] == b"\x80" else data.decode()
    except (binascii.Error, zlib.error, pickle.UnpicklingError, ValueError, EOFError, IndexError, KeyError) as error:
        raise ValueError(f"`{key}` is neither JSON nor packed tests: {error}") from None
    if not isinstance(text, str):
        raise ValueError(f"`{key}` holds a pickled {type(text).__name__}, not text")
    return text


class _PlainUnpickler(pickle.Unpickler):
    """Reads text, numbers and containers; any reference to a class or function is refused, so none is ever called."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"refused: the pickle refers to {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("refused: the pickle holds a persistent id")
