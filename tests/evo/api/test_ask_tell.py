"""evo.Search: prompts out, answers in, by an operator that is no policy; in memory or stored, from several threads."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.command_line import evo as command
from support.stored_rows import stored_groups

import evo
from islands.errors import DatabaseUnavailable, RunBusy, RunExists
from islands.population.population import Population
from problems.contract import Problem, Score


class Near(Problem):
    """Numbers near the root of two, and short ones. Scored in this process."""

    name, objectives, inline = "near", ("close", "short"), True

    def statement(self):
        return "Write a number near the root of two."

    def seed_answer(self):
        return "1"

    def score(self, answer):
        try:
            close = -abs(float(answer) - 2**0.5)
        except ValueError:
            return Score.failure(2, "no number")
        return Score((close, 1 / len(answer)), close)


def step(prompt, rng):
    """An operator: the parent moved a little."""
    start = float(prompt.parent.text) if prompt.parent is not None else 1.0
    return f"{start + rng.gauss(0, 0.1):.4f}"


def drive(search, seed=0, batch=3):
    rng = random.Random(seed)
    while prompts := search.ask(batch):
        search.tell(prompts, [step(prompt, rng) for prompt in prompts])
    return [(row["answer"], row["island"], row["parent"]) for row in search.frame().fillna(-1).to_dict("records")]


def test_an_operator_of_the_callers_searches_in_memory(own_folder):
    with evo.Search(Near(), iterations=60, seed=1) as search:
        drive(search)
        assert search.done and search.ask() == []
        assert abs(float(search.best_answer.text) - 2**0.5) < 0.05 and search.best == [search.best_answer]
        frame = search.frame()
        assert len(frame) > 50 and set(frame.columns) >= {"reward.close", "reward.short", "parent", "island"}
    assert list(own_folder.iterdir()) == []


def test_the_same_calls_give_the_same_search():
    """Also inside a running loop, as a notebook has one."""

    async def cell():
        return drive(evo.Search(Near(), iterations=30, seed=1))

    first, other = (drive(evo.Search(Near(), iterations=30, seed=seed)) for seed in (1, 2))
    assert first == asyncio.run(cell()) != other


def test_it_is_the_search_that_evo_run_drives():
    """Told what a policy answered, it asks for the same prompts and stores the same answers."""
    settings = {"answers": 1, "seed": 4, "iterations": 12}
    evo.run(Near(), policy="scripted:mutate", parallel=1, name="whole", progress=False, **settings)
    groups = stored_groups("sqlite:///evo.db", "whole")
    search = evo.Search(Near(), **settings)
    for group in groups:
        (prompt,) = search.ask()
        assert (prompt.text, prompt.system, prompt.island) == (group.prompt.user, group.prompt.system, group.island)
        search.tell([prompt], [[answer.text for answer in group.all_answers()]])
    stored = ["answer", "fitness", "island", "parent", "sequence"]
    assert search.frame()[stored].equals(evo.load_run("whole").frame()[stored])


def test_several_threads_ask_and_tell():
    search = evo.Search(Near(), iterations=80)
    told = []

    def work(number):
        rng = random.Random(number)
        while prompts := search.ask(2):
            results = search.tell(prompts, [str(rng.gauss(1, 0.1)) for _ in prompts])  # none is a repeat
            told.extend(prompt.iteration for prompt in prompts)
            assert all(result.fitness is not None for result in results)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert sorted(told) == list(range(80))
    frame = search.frame()
    assert frame.candidate.is_unique and sorted(frame.sequence)[:2] == [-1, 0] and frame.sequence.max() == 79


def test_scoring_of_several_threads_overlaps():
    meeting = threading.Barrier(4, timeout=30)

    class Slow(Near):
        inline = False

        def score(self, answer):
            if answer != "1":
                meeting.wait()
            return super().score(answer)

    search = evo.Search(Slow(), iterations=4, scoring_workers=4)

    def work(number):
        return search.tell(search.ask(), [f"{number}.5"])

    with ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(work, range(4)))) == 4


def test_a_stored_search_is_stopped_and_resumed():
    with evo.Search(Near(), name="mine", iterations=20, seed=3) as search:
        rng = random.Random(0)
        first, lost, second = search.ask(3)
        search.tell([second, first], ["1.5", "1.3"])
        assert search.name == "mine" and lost.iteration == 1
    kept = evo.load_run("mine")
    assert kept.outcome == "interrupted" and kept.summary["groups"] == 2
    with evo.Search.resume("mine", problems=Near(), iterations=10) as search:
        prompts = search.ask(100)
        assert [prompt.iteration for prompt in prompts] == [1, *range(3, 10)]
        search.tell(prompts, [step(prompt, rng) for prompt in prompts])
        assert search.done
    assert evo.load_run("mine").outcome == "done"
    assert evo.load_run("mine").summary["groups"] == 10


def test_a_search_of_a_program_is_described_so_and_closed_when_it_goes_away(capsys):
    search = evo.Search(Near(), name="gone")
    search.tell(search.ask(), ["2"])
    del search
    assert evo.load_run("gone").outcome == "interrupted"
    code, out, _ = command(capsys, "show", "gone")
    assert code == 0 and "--lag" not in out
    assert "its answers come from a Python program, so the seed does not reproduce this run" in out


def test_what_answers_win():
    search = evo.Search(Near())
    prompts = search.ask(3)
    better, repeat, broken = search.tell(prompts, ["1.4", ["1", "1.41"], "x"])
    assert better.improved and better.fitness == pytest.approx(-abs(1.4 - 2**0.5)) and better.new == (True,)
    assert repeat.new == (False, True) and repeat.improved and len(repeat.candidates) == 2
    assert broken.fitness is None and broken.scores[0].error == "no number" and not broken.improved


def test_scores_may_be_the_callers_and_arrays():
    search = evo.Search(Near())
    prompts = search.ask(2)
    named, whole = search.tell(prompts, ["a", "b"], [{"close": 1, "short": 3}, Score((1.0, 1.0), 7.0)])
    assert (named.fitness, whole.fitness) == (2.0, 7.0) and search.best_answer.text == "b"
    (prompt,) = search.ask()
    with pytest.raises(ValueError, match="close, short: give a mapping"):
        search.tell([prompt], ["c"], [1.0])
    assert search.tell([prompt], ["c"], [{"close": 0, "short": 0, "fitness": -1}])[0].fitness == -1
    search = evo.Search(score=lambda text: float(text), seed_answer="1")
    first, *others = search.ask(3)
    (both,) = search.tell([first], [["2", "3"]], scores=[np.array([1.5, 2.5])])
    assert [score.fitness for score in both.scores] == [1.5, 2.5]
    one, two = search.tell(others, ["5", "6"], scores=np.array([8.5, 9.5]))
    assert (one.fitness, two.fitness) == (8.5, 9.5)
    with pytest.raises(ValueError, match="a score is '12'; it must be a finite number"):
        search.tell(search.ask(), ["7"], scores=["12"])


def test_a_caller_has_a_parent_whatever_its_answers_repeat():
    """The program of the README with two digits, so that answers repeat."""
    rng, search = random.Random(0), evo.Search(Near(), iterations=200, seed=0)
    hidden = 0
    while prompts := search.ask(8):
        parents = [float(prompt.parent.text) for prompt in prompts]
        hidden += sum(prompt.source.shown.parent is None for prompt in prompts)
        search.tell(prompts, [f"{parent + rng.gauss(0, 0.1):.2f}" for parent in parents])
    assert hidden, "the texts of some prompts show no parent"
    assert search.best_answer.fitness > -0.01


@pytest.mark.parametrize("settings", [{"fresh": 1.0}, {"strategy": "scs"}, {"prompt": {"show_parent": False}}])
def test_the_seed_is_the_parent_at_first(settings):
    search = evo.Search(Near(), **settings)
    (prompt,) = search.ask()
    assert (prompt.parent.text, prompt.parent.fitness) == ("1", pytest.approx(1 - 2**0.5))


def test_an_empty_answer_is_a_parent_too():
    class Short(Near):
        name = "short"

        def score(self, answer):
            return Score((1.0 - len(answer) / 10, 0.5), 1.0 - len(answer) / 10)

    search = evo.Search(Short(), fresh=0.0, seed=1)
    search.tell(search.ask(), [""])
    parents = [prompt.parent.text for prompt in search.ask(50)]
    assert "" in parents and set(parents) <= {"", "1"}


def test_a_reply_of_a_model_is_read_as_its_prompt_asks():
    search = evo.Search(Near(), answers=2)
    (prompt,) = search.ask()
    assert "<answer_1>" in prompt.text and prompt.system
    assert prompt.read("<answer_1>1.4</answer_1> and <answer_2>1.5</answer_2>") == ["1.4", "1.5"]
    assert prompt.read("nothing") == []


def test_mistakes_of_the_caller_store_nothing():
    search = evo.Search(Near())
    first, second = search.ask(2)

    def refused(told, said, prompts=(first,), scores=None, by=search):
        with pytest.raises(ValueError, match=said):
            by.tell(list(prompts), told, scores)

    refused(["1.2"], "2 prompts and answers to 1", (first, second))
    refused([["1.2", "1.3"]], "scores for", scores=[[1.0]])
    for number in (10**400, float("nan"), "1"):
        refused(["1.2"], "it must be a finite number", scores=[{"close": number, "short": 1}])
    refused(["1.2", "1.3"], "has an answer already", (first, first))
    search.tell([first], ["1.2"])
    refused(["1.3"], "has an answer already")
    refused(["1.4"], "not of this search", (second,), by=evo.Search(Near()))
    assert list(search.frame().answer) == ["1", "1.2"]
    search.close()
    search.close()
    with pytest.raises(RuntimeError, match="closed"):
        search.ask()


@pytest.mark.parametrize("fault", [DatabaseUnavailable, RunBusy])
def test_after_a_database_failure_a_resume_makes_the_same_search(monkeypatch, own_folder, fault):
    """Nothing of the call is stored or counted."""
    with evo.Search(Near(), iterations=20, seed=1, name="whole") as whole:
        expected = drive(whole)
    search, rng, write = evo.Search(Near(), iterations=20, seed=1, name="parts"), random.Random(0), Population.add

    def add(population, group, transaction):
        if group.iteration == 5:
            raise fault("gone")
        return write(population, group, transaction)

    with monkeypatch.context() as patch, pytest.raises(fault):
        patch.setattr(Population, "add", add)
        while prompts := search.ask(3):
            state = rng.getstate()
            search.tell(prompts, [step(prompt, rng) for prompt in prompts])
    for again in (search.ask, lambda: search.tell(prompts, ["1"] * len(prompts))):
        with pytest.raises(RuntimeError, match=r"\(gone\); evo.Search.resume\('parts'\) continues it"):
            again()
    search.close()
    rng.setstate(state)
    with evo.Search.resume("parts", problems=[Near()]) as search:
        while prompts := search.ask(3):
            search.tell(prompts, [step(prompt, rng) for prompt in prompts])
        found = [(row["answer"], row["island"]) for row in search.frame().to_dict("records")]
    assert found == [(answer, island) for answer, island, _ in expected]
    assert [group.sequence for group in stored_groups("sqlite:///evo.db", "parts")] == list(range(20))


def test_prompts_are_open_until_their_answers_are_stored(own_folder):
    with evo.Search(Near(), name="away") as search:
        prompts = search.ask(2)
        (own_folder / "evo.db").rename("other.db")
        for call in (lambda: search.tell(prompts, ["2", "3"]), search.ask) * 2:
            with pytest.raises(DatabaseUnavailable, match="Put it back"):
                call()
        (own_folder / "other.db").rename("evo.db")
        assert [told.fitness for told in search.tell(prompts, ["2", "3"])] == [2**0.5 - 2, 2**0.5 - 3]
        assert list(search.frame().answer) == ["1", "2", "3"]


def test_the_constructor_fails_before_anything_is_stored_and_runs_of_policies_are_told_apart(own_folder):
    for given, wrong, words in (
        ([Near()], {"iterations": 0}, "iterations"),
        ([Near()], {"name": "-"}, "name"),
        ([Near()], {"db": "nonsense"}, "database address"),
        ([], {}, "no problem named"),
        (["maze:nothing"], {}, "maze"),
    ):
        with pytest.raises(Exception, match=words):
            evo.Search(*given, **wrong)
    assert list(own_folder.iterdir()) == []
    evo.Search(Near(), name="taken").close()
    with pytest.raises(RunExists):
        evo.Search(Near(), name="taken")
    with pytest.raises(ValueError, match=r"evo.Search.resume\('taken'\)"):
        evo.resume("taken", problems=Near(), progress=False)
    evo.run(Near(), policy="scripted:mutate", iterations=2, name="theirs", progress=False)
    with pytest.raises(ValueError, match=r"evo.resume\('theirs'\)"):
        evo.Search.resume("theirs", problems=Near())


def test_a_scorer_that_fails_stops_its_problem():
    class Broken(Near):
        def score(self, answer):
            if answer != "1":
                raise RuntimeError("no licence")
            return super().score(answer)

        def score_seed(self):
            raise RuntimeError("no licence")

    search = evo.Search(Broken())
    with pytest.raises(evo.ScorerFault, match="no licence"):
        search.tell(search.ask(), ["2"])
    assert search.done and search.ask() == [] and list(search.frame().answer) == ["1"]


def test_a_function_is_scored_in_its_sandbox(vowels):
    with evo.Search(score=vowels, seed_answer="one", statement="Write vowels.", name="vowels", iterations=4) as search:
        prompts = search.ask(2)
        assert "Write vowels." in prompts[0].text
        assert search.tell(prompts, ["aeiou", "xyz"])[0].improved
    with evo.Search.resume("vowels", score=vowels) as search:
        assert search.best_answer.text == "aeiou" and len(search.ask(9)) == 2
