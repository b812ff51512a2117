"""A problem that needs no sandbox and a policy that needs no model, for tests of the search itself; databases and
pages of finished searches; a browser."""

import asyncio
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from sqlalchemy import update
from support.hostile_text import HOSTILE, AnyTextProblem, HostilePolicy
from support.searches import run_search

import evo
from evo.config.run import RunConfig
from evo.progress.model import Progress
from evo.report.page import build_page, render
from evo.runs.resume import resume_run
from evo.runs.start import Changes, start_run
from evo.search import resources as shared
from islands.blobs import compress
from islands.comparisons import PlannedRun, plan
from islands.schema import Candidates, PromptTexts, Rollouts, Runs
from islands.store import Store
from problems.contract import Problem, Score, ScorerFault
from problems.types import Rollout
from vpo.policies.contract import Policy, PolicyTraits

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


class DigitsProblem(Problem):
    """Answers are words; rewards are the shares of even and of odd digits among eight. Optimum by construction."""

    objectives, inline = ("even", "odd"), True

    def __init__(self, name="digits", target=None, fault_on=None):
        self.name, self.target, self.fault_on = name, target, fault_on
        self.scored = []

    def statement(self):
        return "Write eight digits."

    def seed_answer(self):
        return "00000000"

    def score_seed(self):
        if self.fault_on is not None:  # a scorer that has broken down, for the seed as for others
            raise ScorerFault(f"{self.name}: no score for its seed")
        return self.score(self.seed_answer())

    def score(self, answer):
        self.scored.append(answer)
        if self.fault_on is not None and self.fault_on(answer):
            raise ScorerFault(f"{self.name}: no score for {answer!r}")
        if not answer.isdigit() or len(answer) != 8:
            return Score.failure(2, "not eight digits")
        even = sum(c in "02468" for c in answer) / 8
        return Score((even, 1 - even), sum(map(int, answer)) / 72, {"spread": float(len(set(answer)))})


class DigitsPolicy(Policy):
    """Draws digits from (seed, stream, rollout) alone; `delay` seconds a call, longer for some calls than others."""

    version, prompt_format, traits = "digits-1", "chat", PolicyTraits(logprobs=True)

    def __init__(self, batch=4, delay=0.0, jitter=0.0, die_after=None, error=None, low=0):
        self.low = low  # the least digit that it writes
        self.batch, self.delay, self.jitter = batch, delay, jitter
        self.die_after, self.error, self.calls = die_after, error, []

    async def sample(self, prompts, *, rollouts, answers, seed):
        self.calls.append([p.stream for p in prompts])
        if self.die_after is not None and len(self.calls) > self.die_after:
            raise self.error
        if self.delay or self.jitter:
            await asyncio.sleep(self.delay + self.jitter * np.random.default_rng().random())
        return [[self._rollout(p, i, answers, seed) for i in range(rollouts)] for p in prompts]

    def _rollout(self, prompt, i, answers, seed):
        rng = np.random.default_rng([seed, prompt.stream, i, len(prompt.user)])
        words = ["".join(map(str, rng.integers(self.low, 10, 8))) for _ in range(answers)]
        if rng.random() < 0.1:
            words[0] = "nonsense"
        text = "\n".join(f"<answer_{j + 1}>{w}</answer_{j + 1}>" for j, w in enumerate(words))
        if answers == 1:
            text = f"<answer>{words[0]}</answer>"
        ids = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        return Rollout(text, ids, np.full(len(ids), -0.5, np.float32), ids[:4])

    async def close(self):
        pass


@pytest.fixture
def search_with(monkeypatch):
    """search(problems, policy, db, name=..., resume=..., **config) -> OpenRun, after the search has run."""
    return make_search(monkeypatch)


def make_search(monkeypatch):
    """As search_with, for fixtures of a session."""

    def run(problems, policy, db, *, name="run", resume=False, accept_change=False, stop_after=None,
            interrupt_after=None, **settings):  # fmt: skip
        monkeypatch.setattr(shared, "resolve_problems", lambda config: list(problems))
        monkeypatch.setattr(shared, "open_policy", lambda config, problems: policy)
        if resume:
            opening = resume_run(name, db=db, changes=Changes(settings, accept_change))
        else:
            config = RunConfig.model_validate({"problems": ["x"], "answers": 2, **settings})
            opening = start_run(config, db=db, name=name, command="test")
        return run_search(opening, stop_after=stop_after, interrupt_after=interrupt_after)

    return run


@pytest.fixture
def clock(monkeypatch):
    """Both clocks of the time searched, `ahead` of the true ones by what a test adds to it."""
    clock = SimpleNamespace(ahead=0.0, time=lambda: time.time() + clock.ahead)
    clock.monotonic = lambda: time.monotonic() + clock.ahead
    monkeypatch.setattr("evo.search.status.time", clock)
    return clock


@pytest.fixture
def db(tmp_path):
    """The address of a database that is not there yet."""
    return f"sqlite:///{tmp_path / 'evo.db'}"


@pytest.fixture
def digits():
    return DigitsProblem


@pytest.fixture
def digits_policy():
    return DigitsPolicy


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The address of a database with a comparison `made-up`: 3 arms (one is grpo) x 2 seeds x 5 problems x 12."""
    address = f"sqlite:///{tmp_path_factory.mktemp('made') / 'runs.db'}"
    lowest = {"base": 0, "best-of-n": 1, "grpo": 2}
    config = dict(problems=["x"], iterations=12, rollouts=1, answers=3)
    runs = [
        PlannedRun(arm, seed, {**config, "policy": f"made:{arm}", "seed": seed}) for seed in (0, 1) for arm in lowest
    ]
    with Store.open(address) as store:
        plan(store, "made-up", runs, command="evo compare made-up --iterations 12", commit="0" * 12)
    with pytest.MonkeyPatch.context() as monkeypatch:
        search = make_search(monkeypatch)
        for run in runs:
            problems = [DigitsProblem(f"made-up/{n}", target=0.72 + 0.03 * n) for n in range(5)]
            policy = DigitsPolicy(low=lowest[run.arm])
            search(problems, policy, address, name=f"made-up/{run.arm}/s{run.seed}", resume=True)
    with Store.open(address) as store, store.begin() as tx:
        tx.connection.execute(update(Runs).values(status="done"))
    return address


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """The file of a database with a run named `run`: problem `a` with a target, `b` without, 30 iterations each."""
    file = tmp_path_factory.mktemp("small") / "evo.db"
    with pytest.MonkeyPatch.context() as monkeypatch:
        problems = [DigitsProblem("a", target=0.9), DigitsProblem("b")]
        make_search(monkeypatch)(problems, DigitsPolicy(), f"sqlite:///{file}", iterations=30)
    return file


@pytest.fixture
def small(small_run, tmp_path):
    """The address of a copy of it that a test may change."""
    return f"sqlite:///{shutil.copy(small_run, tmp_path / 'evo.db')}"


TRADE = """
isolated = False
answer_format = "python"
seed_answer = "X, Y = 1.0, 2.0\\n"
directions = {"cost": "min"}
def measure(answer, at):
    names = {}
    exec(answer, names)
    x, y = names["X"], names["Y"]
    near = 1 / (1 + abs(x - at))
    return {"near": near, "cost": abs(x) + abs(y) + 1, "even": 1 / (1 + abs(x - y))}
def score(answer):
    counts = {"size": len(answer), "dots": answer.count("."), "signs": answer.count("-")}
    return {**measure(answer, 3.0), "features": counts}
def held_out(answer):
    return [measure(answer, at) for at in (2.5, 2.9, 3.2)]
"""


@pytest.fixture(scope="session")
def trade_run(tmp_path_factory):
    """The file of a database with a verified run named `trade`: three objectives, three features, held-out cases."""
    folder = tmp_path_factory.mktemp("trade")
    (folder / "trade.py").write_text(TRADE)
    db = f"sqlite:///{folder / 'evo.db'}"
    options = dict(policy="scripted:mutate", answers=1, iterations=40, seed=0, db=db, progress=False)
    with ThreadPoolExecutor(1) as thread:  # a browser's event loop may run in this one
        thread.submit(evo.run, str(folder / "trade.py"), name="trade", **options).result()
        thread.submit(evo.verify, "trade", tune=False, sample=False, db=db, progress=False).result()
    return folder / "evo.db"


@pytest.fixture(scope="session")
def page_for():
    """page_for(address, name) -> the Page and its HTML."""

    def made_for(address, name, against=None):
        with Store.open(address, read_only=True) as store:
            page = build_page(Progress.open(store, name, against))
        return page, render("page.html.jinja", page=page, state="done")

    return made_for


@pytest.fixture
def as_comparison():
    """as_comparison(address, {run name: (arm, seed)}): put runs together as one comparison named `both`."""

    def put_together(address, runs):
        with Store.open(address) as store, store.begin() as tx:
            for name, (arm, seed) in runs.items():
                tx.connection.execute(
                    update(Runs).where(Runs.c.name == name).values(comparison="both", arm=arm, seed=seed, status="done")
                )

    return put_together


@pytest.fixture
def hostile(search_with, as_comparison, tmp_path):
    """The address of a database with a comparison `both`, whose names, prompts, answers, feedback and errors hold
    what must not be believed. A best answer has a line of 1 MB."""
    address, runs, long = f"sqlite:///{tmp_path / 'hostile.db'}", {}, HOSTILE + "x" * 1_000_000
    for arm in ("</script><b>", "$x_1$ & \"q\" 'q'"):
        for seed in range(2):
            runs[name := f"run{len(runs)}"] = (arm, seed)
            searched = ([AnyTextProblem(), AnyTextProblem("</title>\x00")], HostilePolicy(HOSTILE), address)
            with ThreadPoolExecutor(1) as thread:  # a browser's event loop may run in this one
                thread.submit(search_with, *searched, name=name, seed=seed, answers=1, iterations=4).result()
    as_comparison(address, runs)
    with Store.open(address) as store:
        best = store.problems(store.runs()[0].id)[1].best
        changes = [
            update(Runs).values(command="evo run '<script>alert(3)</script>'", reason="</td><b>no"),
            update(Rollouts).values(format_error=HOSTILE, text=long, token_ids=b""),
            update(Candidates).values(error=HOSTILE).where(Candidates.c.id == best - 1),
            update(Candidates).values(text=long, feedback=long).where(Candidates.c.id == best),
            update(PromptTexts).values(base=None, token_ids=b"", texts=compress(json.dumps([long, long]).encode())),
        ]
        with store.begin() as tx:
            for change in changes:
                tx.connection.execute(change)
    return address


@pytest.fixture(scope="module")
def browser():
    """A Chromium without a window. Needs playwright and a browser on the PATH. Its event loop runs in this thread until
    the module ends: a search needs another one."""
    leave = pytest.fail if os.environ.get("CI") else pytest.skip
    try:
        from playwright import sync_api as playwright
    except ImportError:
        leave('needs a browser\'s driver: pip install "evo-search[browser]"')
    chromium = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if chromium is None:
        leave("needs Chromium: the distribution's package `chromium`")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def tab(browser):
    """A page that keeps what it complained of, asked for and opened."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.complaints, opened.requests = [], []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on("dialog", lambda dialog: (opened.complaints.append(dialog.message), dialog.dismiss()))
    opened.on("request", lambda request: opened.requests.append(request.url))
    yield opened
    opened.close()
