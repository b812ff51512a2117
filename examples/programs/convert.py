"""Rows of EvalPlus or LeetCodeDataset, a JSON object a line, as rows of the MBPP format that `programs:FILE` reads.

    python convert.py HumanEvalPlus.jsonl > rows.jsonl

EvalPlus has inputs and a reference, no results. The reference runs here, in this process: use a file that you trust.
Not converted: the problems of MBPP+ whose harness has a check or argument types of its own (sets, tuples).
"""

import ast
import copy
import gzip
import json
import math
import sys

MOST, LARGEST = 16, 8192  # tests of a LeetCode row: the smallest, none above this many characters


def from_evalplus(row):
    reference = f"{row['prompt'].rstrip()}\n{row['canonical_solution']}"
    space, tests, name = {}, [], row["entry_point"]
    exec(reference, space)
    for arguments in row["base_input"] + row["plus_input"]:
        call = f"{name}({', '.join(map(repr, arguments))})"
        expected = space[name](*copy.deepcopy(arguments))
        if isinstance(expected, float) and math.isfinite(expected):
            tests.append(f"assert abs({call} - {expected!r}) <= {row['atol'] or 1e-6} + 1e-7 * {abs(expected)!r}")
        elif isinstance(expected, float):
            tests.append(f"assert repr({call}) == {repr(expected)!r}")
        else:
            tests.append(f"assert {call} == {expected!r}")
    made = {"text": row["prompt"].strip().strip('"'), "code": reference, "test_list": tests, "entry_point": name}
    return made | {"test_imports": ["from math import inf, nan"]}


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
    text = f"{row.get('problem_description') or row.get('query')}\n\nStart from:\n```python\n{row['starter_code']}\n```"
    return {"text": text, "code": row["completion"], "test_imports": [row["prompt"]], "test_list": tests}


def main(path):
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as lines:
        for line in lines:
            row = json.loads(line)
            made = from_leetcode(row) if "completion" in row else from_evalplus(row)
            print(json.dumps({"task_id": row["task_id"], "estimated_date": row.get("estimated_date")} | made))


if __name__ == "__main__":
    main(sys.argv[1])
