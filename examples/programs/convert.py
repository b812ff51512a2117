"""Rows of EvalPlus or LeetCodeDataset, a JSON object a line, as rows of the MBPP format that `programs:FILE` reads.

    python convert.py HumanEvalPlus.jsonl > rows.jsonl

EvalPlus has inputs and a reference, no results. The reference runs here, in this process: use a file that you trust.
Not converted: the problems of MBPP+ whose harness has a check or argument types of its own (sets, tuples),
find_zero of HumanEval+, where any zero is right, and problems whose results are lists of floats.
The harness keeps a tolerance of 1e-6, once a test has had floats, for the tests after it; these rows do not.
"""

import ast
import copy
import gzip
import json
import re
import sys

MOST, LARGEST = 16, 8192  # tests of a LeetCode row: the smallest, none above this many characters


def from_evalplus(row):
    reference = f"{row['prompt'].rstrip()}\n{row['canonical_solution']}"
    space, tests, name = {}, [], row["entry_point"]
    exec(reference, space)
    for arguments in row["base_input"] + row["plus_input"]:
        given = ", ".join(map(repr, arguments))
        expected = space[name](*copy.deepcopy(arguments))
        if isinstance(expected, float) or (row["atol"] and isinstance(expected, int)):
            near = f"rel_tol=1e-07, abs_tol={row['atol'] or 1e-6}"
            tests.append(f"assert math.isclose({name}({given}), {expected!r}, {near})")
        elif row["atol"] or (isinstance(expected, (list, tuple)) and any(isinstance(x, float) for x in expected)):
            return None
        else:
            tests.append(f"assert {name}({given}) == {expected!r}")
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
            if made is not None:
                print(json.dumps({"task_id": row["task_id"], "estimated_date": row.get("estimated_date")} | made))


if __name__ == "__main__":
    main(sys.argv[1])
