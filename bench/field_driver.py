"""One run of one system for bench.field: python field_driver.py SYSTEM FOLDER URL CALLS SEED TOKENS

It runs in the environment of its system and needs nothing else of this repository but for our own systems. FOLDER holds
initial_program.py, statement.txt and evaluate.py, which sends a program to URL/score and runs none itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

EVALUATE = '''\
"""Scores a program by asking the benchmark's own process, which runs it in a sandbox. Nothing is run here."""
import json, sys, urllib.request

URL = {url!r}


def ask(code):
    body = json.dumps({{"code": code}}).encode()
    request = urllib.request.Request(URL + "/score", body, {{"Content-Type": "application/json"}})
    return json.load(urllib.request.urlopen(request, timeout=900))


def evaluate(path):
    """As OpenEvolve calls it."""
    found = ask(open(path).read())
    from openevolve.evaluation_result import EvaluationResult
    metrics = {{"combined_score": found["fitness"], **found["rewards"]}}
    return EvaluationResult(metrics=metrics, artifacts={{"feedback": found["feedback"]}})


def main(program, folder):
    """As ShinkaEvolve calls it."""
    found = ask(open(program).read())
    correct = found["error"] is None
    with open(folder + "/metrics.json", "w") as file:
        json.dump({{"combined_score": found["fitness"], "public": found["rewards"], "private": {{}},
                   "text_feedback": found["feedback"]}}, file)
    with open(folder + "/correct.json", "w") as file:
        json.dump({{"correct": correct, "error": found["error"]}}, file)


if __name__ == "__main__":
    given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    main(given["--program_path"], given["--results_dir"])
'''
OPENEVOLVE = """\
max_iterations: {calls}
checkpoint_interval: 1000
random_seed: {seed}
diff_based_evolution: false
max_code_length: 10000
llm:
  api_base: {url}/v1
  api_key: none
  primary_model: served
  temperature: 0.8
  top_p: 1.0
  max_tokens: {tokens}
  timeout: 900
  retries: 0
prompt:
  system_message: {statement}
  include_artifacts: true
evaluator:
  timeout: 900
  max_retries: 0
  parallel_evaluations: 1
  cascade_evaluation: false
"""


def ours(kind: str, folder: Path, url: str, calls: int, seed: int, tokens: int) -> None:
    """islands, hill, scs, best-of-n: evo.run with one prompt at a time."""
    import evo
    from problems.contract import Problem, Score

    class Remote(Problem):
        """The task, scored by the benchmark's process like everybody's, so that it is timed like everybody's."""

        name, answer_format, target = "field:" + folder.parent.name, "python", None
        objectives = tuple(json.loads((folder / "objectives.json").read_text()))

        def statement(self) -> str:
            return (folder / "statement.txt").read_text()

        def seed_answer(self) -> str:
            return (folder / "seed.py").read_text()

        def score(self, answer: str) -> Score:
            body = json.dumps({"code": answer}).encode()
            request = urllib.request.Request(url + "/score", body, {"Content-Type": "application/json"})
            found = json.load(urllib.request.urlopen(request, timeout=900))
            rewards = tuple(found["rewards"][name] for name in self.objectives)
            return Score(rewards, found["fitness"], found["features"], found["feedback"], found["error"])

    # no probe: a busy server is late with it, and what it asks is asked below
    policy = f"openai:served@{url}/v1?check=off&logprobs=off&timeout=900"
    settings: dict[str, Any] = {}
    if kind in ("hill", "scs"):
        settings = {"islands": 1, "strategy": kind}
    elif kind == "best-of-n":
        settings = {"prompt": {"show_parent": False}}
    evo.run(
        Remote(), policy=policy, iterations=calls, answers=1, rollouts=1, seed=seed, parallel=1,
        temperature=0.8, max_new_tokens=tokens, db=f"sqlite:///{folder}/run.db", progress=False, **settings,
    )  # fmt: skip


def openevolve(folder: Path, url: str, calls: int, seed: int, tokens: int) -> None:
    statement = json.dumps((folder / "statement.txt").read_text())
    config = OPENEVOLVE.format(calls=calls, seed=seed, url=url, tokens=tokens, statement=statement)
    (folder / "config.yaml").write_text(config)
    from openevolve.cli import main

    sys.argv = ["openevolve", str(folder / "initial_program.py"), str(folder / "evaluate.py"), "--config",
                str(folder / "config.yaml"), "--output", str(folder / "output"),
                "--iterations", str(calls)]  # fmt: skip
    main()


def shinka(folder: Path, url: str, calls: int, seed: int, tokens: int) -> None:
    import random

    from shinka.core import EvolutionConfig, ShinkaEvolveRunner
    from shinka.database import DatabaseConfig
    from shinka.launch import LocalJobConfig

    random.seed(seed)
    runner = ShinkaEvolveRunner(
        EvolutionConfig(
            task_sys_msg=(folder / "statement.txt").read_text(),
            patch_types=["full"],
            patch_type_probs=[1.0],
            num_generations=calls + 1,
            max_patch_resamples=1,
            max_patch_attempts=1,
            llm_models=[f"local/served@{url}/v1"],
            llm_dynamic_selection=None,
            llm_kwargs={"temperatures": 0.8, "max_tokens": tokens},
            meta_rec_interval=None,
            embedding_model=None,
            init_program_path=str(folder / "initial_program.py"),
            results_dir=str(folder / "output"),
            use_text_feedback=True,
        ),
        LocalJobConfig(eval_program_path=str(folder / "evaluate.py"), python_executable=sys.executable),
        DatabaseConfig(db_path=str(folder / "shinka.db")),
        verbose=True,
        max_evaluation_jobs=1,
        max_proposal_jobs=1,
    )
    found = runner.run()
    if asyncio.iscoroutine(found):
        asyncio.run(found)


def gepa(folder: Path, url: str, calls: int, seed: int, tokens: int) -> None:
    from gepa.optimize_anything import EngineConfig, GEPAConfig, ReflectionConfig, optimize_anything

    def post(path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=900))

    def model(prompt: str | list[dict[str, Any]]) -> str:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        body = {"model": "served", "messages": messages, "temperature": 0.8, "max_tokens": tokens, "seed": seed}
        return str(post("/v1/chat/completions", body)["choices"][0]["message"]["content"])

    def evaluate(candidate: str) -> tuple[float, dict[str, Any]]:
        found = post("/score", {"code": candidate})
        return found["fitness"], {"feedback": found["feedback"], **found["rewards"]}

    optimize_anything(
        (folder / "seed.py").read_text(),
        evaluator=evaluate,
        objective=(folder / "statement.txt").read_text(),
        config=GEPAConfig(
            engine=EngineConfig(seed=seed, max_candidate_proposals=calls, max_metric_calls=4 * calls, parallel=False),
            reflection=ReflectionConfig(reflection_lm=model),
        ),
    )


def main() -> None:
    system, folder, url, calls, seed, tokens = sys.argv[1], Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:7])
    (folder / "evaluate.py").write_text(EVALUATE.format(url=url))
    os.chdir(folder)
    os.environ.setdefault("OPENAI_API_KEY", "none")
    os.environ.setdefault("LOCAL_OPENAI_API_KEY", "none")
    if system in ("openevolve", "shinka", "gepa"):
        {"openevolve": openevolve, "shinka": shinka, "gepa": gepa}[system](folder, url, calls, seed, tokens)
    else:
        ours(system, folder, url, calls, seed, tokens)


if __name__ == "__main__":
    main()
