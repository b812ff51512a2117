"""Rows of EvalPlus or LeetCodeDataset, a JSON object a line, as rows of the MBPP format that `programs:FILE` reads.

    python convert.py HumanEvalPlus.jsonl > rows.jsonl

EvalPlus has inputs and a reference, no results. The reference runs here, in this process: use a file that you trust.
Not converted: the problems of MBPP+ whose harness has a check or argument types of its own (sets, tuples), and
find_zero of HumanEval+, where any zero is right.
The harness keeps a tolerance of 1e-6, once a test has had floats, for the tests after it; these rows do not.
"""

import ast
import copy
import gzip
import json
import re
import sys

MOST, LARGEST = 16, 8192  # tests of a LeetCode row: the smallest, none above this many characters


ASSERTION = """
import numpy as np
def is_floats(x):
    return isinstance(x, float) or (isinstance(x, (list, tuple)) and all(isinstance(i, float) for i in x))
def assertion(out, exp, atol):
    exact_match = out == exp
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not exact_match and atol != 0:
        assert type(out) == type(exp)
        np.testing.assert_allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match
""".strip()
"""EvalPlus' own comparison."""


def from_evalplus(row):
    reference = f"{row['prompt'].rstrip()}\n{row['canonical_solution']}"
    space, tests, name = {}, [], row["entry_point"]
    exec(reference, space)
    for arguments in row["base_input"] + row["plus_input"]:
        given = ", ".join(map(repr, arguments))
        expected = space[name](*copy.deepcopy(arguments))
        if row["atol"] or "." in repr(expected) or "inf" in repr(expected):
            tests.append(f"assertion({name}({given}), {expected!r}, {row['atol']})")
        else:
            tests.append(f"assert {name}({given}) == {expected!r}")
    tests = [ASSERTION, *tests] if any(test.startswith("assertion(") for test in tests) else tests
    module = ast.parse(row["prompt"].rstrip() + "\n    pass" if "def " in row["prompt"] else row["prompt"])
    given = [ast.unparse(s) for s in module.body if not isinstance(s, ast.Expr) and getattr(s, "name", "") != name]
    text = f"Complete this Python function.\n\n```python\n{row['prompt'].rstrip()}\n```"
    text = text if module.body[1:] or given else row["prompt"].strip().strip('"')
    made = {"text": text, "code": reference, "test_list": tests, "entry_point": name}
    return made | {"test_imports": ["from math import inf, nan", *given]}


def from_leetcode(row):
    check = next(node for node in ast.parse(row["test"]).body if isinstance(node, ast.FunctionDef))
    candidate, sources = check.args.args[0].arg, []
    for statement in check.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == candidate:
                node.id = row["entry_point"]  # Solution().name
        sources.append(ast.unparse(statement))
    kept = sorted((source for source in sources if len(source) <= LARGEST), key=len)[:MOST]
    tests = [source for source in sources if source in kept]
    asked = row.get("query") or ""  # which older files have alone, with the code to start from
    starter = row.get("starter_code") or re.findall(r"```python\n(.*?)```", asked, re.DOTALL)[-1].rstrip()
    text = f"{row.get('problem_description') or asked}\n\nStart from:\n```python\n{starter}\n```"
    return {"text": text, "code": row["completion"], "test_imports": [row["prompt"]], "test_list": tests}


def main(path):
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as lines:
        for line in lines:
            row = json.loads(line)
            if row["entry_point"] == "find_zero":
                continue
            made = from_leetcode(row) if "completion" in row else from_evalplus(row)
            print(json.dumps({"task_id": row["task_id"], "estimated_date": row.get("estimated_date")} | made))


if __name__ == "__main__":
    main(sys.argv[1])
