"""A command as a policy: its folder, its answer, and what a command that misbehaves comes to."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from pathlib import Path

import pytest

from evo.testing import PolicyContract
from problems.types import Prompt, Rollout
from vpo.policies.command import CommandPolicy
from vpo.policies.contract import Policy
from vpo.policies.registry import policy_at

REQUEST = {
    "format": "work-folder",
    "task": "Make it short.",
    "files": {"main.py": "x = 1\n", "lib/more.py": "y = 2\n"},
    "feedback": "Fitness 0.5\n\ntoo long",
    "others": [{"files": {"main.py": "x = 3\n"}, "scores": "Fitness 0.4 (a 0.4)"}],
}
ONE = {**REQUEST, "files": {"answer.txt": "abc"}, "others": []}


def prompt(request: dict | None = None, stream: int = 4) -> Prompt:
    return Prompt("Say hello." if request is None else json.dumps(request), "", stream)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(script: str, request: dict | None, options: str = "", rollouts: int = 1, seed: int = 3) -> list[Rollout]:
    Path("agent.sh").write_text(script)

    async def sample() -> list[Rollout]:
        policy = policy_at(f"command:sh agent.sh{options}")
        try:
            (group,) = await policy.sample([prompt(request)], rollouts=rollouts, answers=1, seed=seed)
            return group
        finally:
            await policy.close()

    return asyncio.run(sample())


class TestCommand(PolicyContract):
    varied = True

    def open_policy(self) -> Policy:
        Path("agent.sh").write_text('echo "$EVO_SEED"')
        return policy_at("command:sh agent.sh", max_tokens=24)


def test_the_folder_holds_the_files_the_feedback_and_others() -> None:
    kept = Path("kept").absolute()
    (rollout,) = run(f"cat > got.json; cp -r . {kept}; printf 'x = 2\\n' > main.py", REQUEST)
    assert json.loads(rollout.text) == {"files": {"main.py": "x = 2\n", "lib/more.py": "y = 2\n"}} and not rollout.fault
    assert (kept / "lib/more.py").read_text() == "y = 2\n" and "too long" in (kept / "FEEDBACK.md").read_text()
    assert (kept / "others/1/main.py").read_text() == "x = 3\n"
    assert "Change main.py, lib/more.py" in (kept / "TASK.md").read_text()
    given = json.loads((kept / "got.json").read_text())
    assert given["files"] == REQUEST["files"] and given == json.loads((kept / "request.json").read_text())


def test_what_it_prints_is_the_answer_of_one_file_and_the_reply_to_other_prompts() -> None:
    assert json.loads(run("echo new", ONE)[0].text) == {"files": {"answer.txt": "new\n"}}
    assert run("echo new", REQUEST)[0].text == "", "of which file?"
    assert run("true", ONE)[0].text == ""
    assert run("cat TASK.md", None)[0].text == "Say hello.\n"


def test_each_rollout_has_its_own_number_and_folder() -> None:
    texts = [rollout.text for rollout in run('pwd; echo "$EVO_SEED"', None, rollouts=3)]
    folders, numbers = zip(*(text.split() for text in texts), strict=True)
    assert len(set(folders)) == len(set(numbers)) == 3 and not any(Path(folder).exists() for folder in folders)
    assert run('echo "$EVO_SEED"', None)[0].text == run('echo "$EVO_SEED"', None)[0].text


def test_it_may_report_its_usage() -> None:
    usage = run("""echo '{"prompt_tokens": 7, "completion_tokens": 5, "cost": 0.25}' > usage.json""", ONE)[0].usage
    assert usage is not None and (usage.prompt_tokens, usage.completion_tokens, usage.cost) == (7, 5, 0.25)
    for wrong in ("nonsense", "[1]", '{"cost": NaN}', '{"prompt_tokens": -1}'):
        usage = run(f"echo '{wrong}' > usage.json", ONE)[0].usage
        assert usage is not None and usage.cost == usage.prompt_tokens == 0


def test_a_failure_is_a_fault_of_the_rollout() -> None:
    (failed,) = run("echo it broke >&2; exit 3", ONE)
    assert "status 3: it broke" in failed.fault and failed.text == ""


def test_a_command_that_hangs_ends_with_all_that_it_started() -> None:
    late, started = Path("late").absolute(), time.monotonic()
    (slow,) = run(f"(sleep 1; touch {late}) & sleep 30", ONE, "?timeout=0.5")
    assert "longer than 0.5 s" in slow.fault and time.monotonic() - started < 25
    time.sleep(max(0.0, started + 1.3 - time.monotonic()))
    assert not late.exists()


def test_output_without_end_is_cut_and_its_command_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vpo.policies.command.MOST_OUTPUT", 4 << 20)
    (endless,) = run("yes", ONE)
    assert "printed more than 4 MiB" in endless.fault and endless.text == ""
    (loud,) = run("yes >&2 & head -c 3000000 /dev/zero | tr '\\0' a; kill $!", ONE)
    assert not loud.fault and len(json.loads(loud.text)["files"]["answer.txt"]) == 1 << 20


def test_an_answer_that_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for script in (f"rm answer.txt; ln -s {secret} answer.txt", "rm answer.txt; mkfifo answer.txt", "rm answer.txt"):
        assert run(script, ONE)[0].text == ""
    long = json.loads(run("head -c 3000000 /dev/zero | tr '\\0' a > answer.txt", ONE)[0].text)
    assert len(long["files"]["answer.txt"]) == 1 << 20


def test_scripts_of_this_folder_are_found_from_the_work_folder(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    policy = policy_at("command:./agent --flag")
    assert isinstance(policy, CommandPolicy) and policy.words == [str(script), "--flag"]
