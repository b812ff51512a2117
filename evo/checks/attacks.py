"""Can an answer cheat? Hostile answers, each compared with a harmless twin of equal length.

They are scored as any answer is: their attempts stay in the sandbox. A problem that runs answers without one
is not attacked; that is a separate finding.
"""

from __future__ import annotations

import inspect
import secrets
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from evo.checks import payloads
from evo.checks.finding import Finding, faulty, note, ok, skipped
from evo.checks.payloads import MARK, Payload
from evo.checks.subject import Outcome, Subject
from evo.checks.trivial import function_names, place_code
from problems.custom.command import CommandProblem
from problems.custom.scorer_file import ScorerFileProblem
from problems.custom.scorer_function import ScorerFunctionProblem
from problems.openevolve.directory import OpenEvolveProblem
from problems.programs.problem import ProgramProblem

SUCCESS = {
    "reads": "an answer can read the scorer's files, with whatever is expected in them",
    "frames": "an answer shares the scorer's process: it can look into its variables",
    "patches": "an answer can replace what the scorer calls",
    "forges": "an answer can write its own result",
    "leaves early": "an answer can end early with a score that it has not earned",
    "equals": "an answer can return an object that is equal to everything",
    "leftovers": "an answer can leave something that the next evaluation sees",
    "network": "an answer can use the network",
}
CONTAINED = {
    "reads": "the scorer's files cannot be read",
    "frames": "nothing of the scorer is in the answer's process",
    "patches": "an answer cannot replace what the scorer calls",
    "forges": "a forged result is no result",
    "leaves early": "ending early earns nothing",
    "equals": "objects that are equal to everything earn nothing",
    "leftovers": "nothing of an evaluation is left for the next",
    "network": "no connection to this machine",
}
ADVICE = {
    "reads": "let a command run the answer in a folder without them, or a data set's tests judge it",
    "frames": "see `the answer runs apart` in the guide: functions with plain arguments and values",
    "patches": "bind what decides before the answer is loaded, or run it apart",
    "forges": "run the answer in another process than the scorer",
    "leaves early": "do not take an exit, or an answer's output, for a result",
}
MOST_FILES = 20
_DATA = (".py", ".json", ".jsonl", ".csv", ".txt", ".npy", ".npz", ".pkl")


def check_attacks(subject: Subject) -> Iterator[Finding]:
    """Every attack that makes sense for the problem, one finding for each name in SUCCESS."""
    why = reason_to_skip(subject)
    if why is not None:
        yield why
        return
    probe = payloads.probing()
    armed, twin = subject.ask_all([insert(subject, probe.armed()), insert(subject, probe.twin())])
    if not got_through(probe.sign, armed, twin):
        how = "" if twin.valid else "; one with code in it is refused"
        yield ok("attacks", f"an answer is not executed, as far as a raising answer shows{how}")
        return
    if subject.problem.execution == "apart":
        yield ok("process", "an answer runs in another process than its scorer")
    else:
        because = f": {subject.problem.why_shared}" if subject.problem.why_shared else ""
        yield note("process", f"an answer shares the scorer's process{because}")
    judges, paths = judge_files(subject)
    values = {name: 0.0 if subject.problem.directions.get(name) else 1e6 for name in subject.problem.objectives}
    kind = "metrics" if isinstance(subject.problem, OpenEvolveProblem) else "value"
    tried: list[Payload] = [payloads.forging(kind, values), *payloads.leaving(values)]
    if paths:
        tried.insert(0, payloads.reading(paths))
    if judges:
        tried += [payloads.frames(judges), *payloads.patches(judges)]
    texts = [text for attack in tried for text in (insert(subject, attack.armed()), insert(subject, attack.twin()))]
    outcomes = subject.ask_all(texts)
    reached: dict[str, list[str]] = defaultdict(list)
    for payload, armed, twin in zip(tried, outcomes[::2], outcomes[1::2], strict=True):
        reached[payload.check] += (
            [f"{payload.does}: {success}"] if (success := got_through(payload.sign, armed, twin)) else []
        )
    reached["equals"] = _equals(subject)
    reached["leftovers"] = _leftovers(subject, [str(Path(path).parent) for path in paths[:1]])
    reached["network"] = _network(subject)
    for check, lines in reached.items():
        if lines:
            advice = [f"try: {ADVICE[check]}"] if check in ADVICE else []
            yield faulty(check, SUCCESS[check], [*lines[:6], *advice])
        else:
            yield ok(check, CONTAINED[check])


def reason_to_skip(subject: Subject) -> Finding | None:
    """A finding if answers are not executed, or not confined."""
    problem = subject.problem
    if problem.execution == "never":
        return ok("attacks", "an answer is read here, and never executed")
    if problem.execution == "unconfined":
        summary = "isolated = False: an answer that the scorer executes can do whatever you can; not attacked"
        return faulty("attacks", summary)
    if problem.execution == "unknown":
        return skipped(
            "attacks", "it is scored in this process, where no attack is tried; put the scorer in a separate file"
        )
    if problem.answer_format not in ("python", "text"):
        return skipped(
            "attacks", f"hostile answers are Python; this problem has answers of the format {problem.answer_format}"
        )
    if isinstance(problem, OpenEvolveProblem | CommandProblem) and problem.answer_format != "python":
        return skipped("attacks", f"hostile answers are Python; this program is {problem.language}")
    if not subject.honest.valid and not subject.seed_answer:
        return skipped("attacks", "there is no answer that earns anything to hide an attack in; give a seed_answer")
    return None


def judge_files(subject: Subject) -> tuple[list[str], list[str]]:
    """(names of the Python files whose code judges, paths of all that an answer should not read)."""
    problem, paths = subject.problem, list[Path]()
    if isinstance(problem, OpenEvolveProblem):
        paths = [problem.evaluator_file, *_beside(problem.folder, {problem.program, problem.evaluator_file})]
    elif isinstance(problem, CommandProblem):
        paths = _beside(problem.folder, {problem.folder / name for name in problem.originals})
    elif isinstance(problem, ScorerFileProblem):
        paths = [problem.path]
    elif isinstance(problem, ScorerFunctionProblem):
        code = getattr(problem.function, "__code__", None)
        return ([Path(code.co_filename).name] if code is not None else []), []
    elif isinstance(problem, ProgramProblem):
        named = Path(problem.name.removeprefix("programs:").rpartition("/")[0])
        return [], [str(named)] if named.is_file() else [str(file) for file in _shipped()]
    judges = [path.name for path in paths if path.suffix == ".py"]
    return judges, [str(path) for path in paths[:MOST_FILES]]


def insert(subject: Subject, code: str) -> str:
    """An honest answer with the code in it; for a problem of texts an expression, for scorers that evaluate them."""
    base = subject.honest.answer
    if subject.problem.answer_format == "python":
        return place_code(base, code)
    return f"exec({code!r}) or {base}"


def got_through(sign: str, armed: Outcome, twin: Outcome) -> str:
    """How an attack's success shows; "" if it failed."""
    said = "\n".join([armed.fault, *([armed.score.error or "", armed.score.feedback] if armed.score else [])])
    if MARK in said:
        return said.partition(MARK)[2].splitlines()[0][:160]
    if sign == "fails":
        return "the answer failed, as it does if the attack succeeds" if twin.valid and not armed.valid else ""
    if armed.valid and armed.fitness > twin.fitness:
        return f"fitness {twin.fitness:.4g} became {armed.fitness:.4g}"
    return ""


def _equals(subject: Subject) -> list[str]:
    names = function_names(subject.honest.answer) if subject.problem.answer_format == "python" else []
    if not names:
        return []
    armed, twin = subject.ask_all(
        [place_code(subject.honest.answer, code) for code in payloads.equal_to_everything(names)]
    )
    success = got_through("rises", armed, twin)
    return [f"{', '.join(names)}: {success}"] if success else []


def _leftovers(subject: Subject, folders: Sequence[str]) -> list[str]:
    """One evaluation leaves, the next looks, and so do we."""
    token = f"evo-check-{secrets.token_hex(8)}"
    leave, look = payloads.leftovers(token, folders)
    before = subject.ask(insert(subject, look.armed()))
    subject.ask(insert(subject, leave.armed()))
    lines = [f"a process is alive after its evaluation: {pid}" for pid in _processes(token)]
    after = subject.ask(insert(subject, look.armed()))
    success = got_through("fails", after, before)
    lines += [success] if success else []
    for folder in (*folders, "/tmp", "/var/tmp", "/dev/shm"):
        file = Path(folder, token)
        if file.exists():
            lines.append(f"a file is left in {folder}")
            file.unlink()
    return lines


def _processes(token: str) -> list[int]:
    """The processes of this machine whose command line ends with the token."""
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_bytes().rstrip(b"\0").endswith(token.encode()):
                pids.append(int(place.name))
        except OSError:
            continue
    return pids


def _network(subject: Subject) -> list[str]:
    """To a port of this machine, which we listen on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        payload = payloads.connecting(server.getsockname()[1])
        armed, twin = subject.ask_all([insert(subject, payload.armed()), insert(subject, payload.twin())])
        try:
            server.accept()[0].close()  # the kernel has kept a connection that came
            came = True
        except BlockingIOError:
            came = False
    success = got_through(payload.sign, armed, twin)
    return [success or "a connection came"] if success or came else []


def _beside(folder: Path, left_out: set[Path]) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix in _DATA)
    return [file for file in files if file not in left_out and not file.name.startswith(".")]


def _shipped() -> list[Path]:
    """The data sets of this installation."""
    folder = Path(inspect.getfile(ProgramProblem)).parent
    return sorted((folder / "shipped").glob("*.jsonl"))
