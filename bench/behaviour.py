"""Records what the product does for fixed seeds, and compares two records: proof that a renovation changed nothing.

    python -m bench.behaviour record before/       # four searches, a comparison, a report, a training, every --help
    python -m bench.behaviour record after/
    python -m bench.behaviour compare before/ after/

Times, ids of processes and names that a machine makes up are left out. `compare` lists every file that differs with its
first differing lines, and exits with 1 if there is one.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

REPOSITORY = Path(__file__).resolve().parent.parent
EVO = [sys.executable, "-m", "evo"]

OWN_SCORER = """
statement = "One line of lower-case letters that is a palindrome, long, and uses many different letters."
seed_answer = "abba"

def score(answer):
    word = answer.strip()
    if not word.isalpha():
        return {"error": "letters only"}
    return {"palindrome": float(word == word[::-1]), "length": min(len(word), 30) / 30, "letters": len(set(word)) / 26}
"""

SEARCHES = {
    "maze": ["maze:hard", "--limit", "3", "--iterations", "12", "--policy", "embedded:edit-solve", "--seed", "5"],
    "chains": ["maze:test", "--limit", "2", "--iterations", "8", "--policy", "embedded:vpo", "--islands", "3"],
    "programs": ["programs:easy", "--limit", "2", "--iterations", "12", "--policy", "scripted:mutate", "--seed", "2"],
    "own": ["palindromes.py", "--iterations", "30", "--policy", "scripted:mutate", "--seed", "3"],
    "openevolve": ["valley", "--iterations", "15", "--policy", "scripted:mutate", "--seed", "4"],
}
COMPARISON = ["maze:hard", "--arm", "grpo=embedded:grpo", "--arm", "vpo=embedded:vpo", "--limit", "3"]
TRAINING = ["vpo", "maze:train", "--policy", "embedded:base", "--steps", "2", "--seed", "1"]
IMPROVEMENT = ["improve", "--from-traces", "maze", "--policy", "embedded:edit-solve", "--steps", "2"]

TIMED = re.compile(r"seconds|_at$|^created|^finished|^started|elapsed|active|host|pid|machine|version$|path|rate$|busy")
UNSTABLE_TEXT = [
    (re.compile(r"\b\d+:\d\d(:\d\d)?\b"), "T"),
    (re.compile(r"\b[\d.]+ ?(s|ms|min)\b"), "T"),
    (re.compile(r"(/tmp|/root|/work)[^\s'\"]*"), "PATH"),
]


def evo(folder: Path, *arguments: str) -> str:
    """What a command prints; its failure ends the recording."""
    done = subprocess.run(
        [*EVO, *arguments], cwd=folder, text=True, capture_output=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "COLUMNS": "100", "NO_COLOR": "1", "EVO_DB": "sqlite:///evo.db"},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"evo {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def stable(value: Any) -> Any:
    """A JSON value without what differs between two runs of one seed; floats to nine digits."""
    if isinstance(value, dict):
        return {key: stable(one) for key, one in value.items() if not TIMED.search(key)}
    if isinstance(value, list):
        return [stable(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return stable_text(value) if isinstance(value, str) else value


def stable_text(text: str) -> str:
    for pattern, instead in UNSTABLE_TEXT:
        text = pattern.sub(instead, text)
    return text


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True) + "\n")


def record_searches(work: Path, out: Path) -> None:
    for name, arguments in SEARCHES.items():
        evo(work, "run", *arguments, "--name", name, "--plain")
        evo(work, "export", name, "-o", f"{name}.jsonl")
        rows = [json.loads(line) for line in (work / f"{name}.jsonl").read_text().splitlines()]
        write(out / "searches" / f"{name}.json", stable(rows))
        write(out / "searches" / f"{name}.best.json", stable(json.loads(evo(work, "best", name, "--json"))))
        write(out / "searches" / f"{name}.show.txt", stable_text(evo(work, "show", name)))
    evo(work, "run", *SEARCHES["maze"], "--name", "resumed", "--plain", "--max-answers", "40")
    evo(work, "resume", "resumed", "--plain", "--max-answers", "100000")
    evo(work, "export", "resumed", "-o", "resumed.jsonl")
    rows = [json.loads(line) for line in (work / "resumed.jsonl").read_text().splitlines()]
    write(out / "searches" / "resumed.json", stable(rows))


def record_comparison(work: Path, out: Path) -> None:
    evo(work, "compare", *COMPARISON, "--iterations", "6", "--seeds", "2", "--name", "duel", "--plain")
    write(out / "comparison.json", stable(json.loads(evo(work, "show", "duel", "--json"))))
    write(out / "comparison.txt", stable_text(evo(work, "show", "duel")))


def record_report(work: Path, out: Path) -> None:
    for name in ("maze", "duel"):
        evo(work, "report", name, "-o", f"{name}.html")
        page = (work / f"{name}.html").read_text()
        charts = re.findall(r"data-(?:plot|map)='(.*?)'", page)
        write(out / "report" / f"{name}.charts.txt", stable_text("\n".join(charts) + "\n"))
        text = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
        lines = [line.strip() for line in re.sub(r"<[^>]+>", "\n", text).splitlines()]
        write(out / "report" / f"{name}.txt", stable_text("\n".join(filter(None, lines)) + "\n"))


def record_training(work: Path, out: Path) -> None:
    hashes = {}
    for name, arguments in (("vpo", TRAINING), ("improve", IMPROVEMENT)):
        evo(work, "train", *arguments, "-o", name, "--plain")
        (weights,) = sorted((work / name).rglob("model.safetensors"))[:1]
        hashes[name] = hashlib.sha256(weights.read_bytes()).hexdigest()
    evaluated = evo(work, "evaluate", "maze:test", "--limit", "5", "--policy", "vpo", "--answers-total", "6", "--json")
    write(out / "training.json", {"weights": hashes, "evaluation": stable(json.loads(evaluated))})


def record_help(work: Path, out: Path) -> None:
    text = evo(work, "--help")
    write(out / "help" / "evo.txt", text)
    for name in re.findall(r"^  ([a-z]+) ", text.split("Commands:")[1], re.M):
        write(out / "help" / f"{name}.txt", evo(work, name, "--help"))


@click.group()
def main() -> None:
    """Record what the product does for fixed seeds, or compare two records."""


@main.command()
@click.argument("out", type=click.Path(path_type=Path))
def record(out: Path) -> None:
    """Run everything and write the record to OUT, which must not exist."""
    work = out / "work"
    work.mkdir(parents=True)
    (work / "palindromes.py").write_text(OWN_SCORER)
    (work / "valley").symlink_to(REPOSITORY / "examples" / "valley")
    for step in (record_help, record_searches, record_comparison, record_report, record_training):
        click.echo(step.__name__)
        step(work, out)


@main.command()
@click.argument("before", type=click.Path(path_type=Path, exists=True))
@click.argument("after", type=click.Path(path_type=Path, exists=True))
@click.option("--lines", default=12, help="Show this many differing lines of a file.")
def compare(before: Path, after: Path, lines: int) -> None:
    """List what differs between two records; exit with 1 if anything does."""
    names = sorted(
        {
            str(path.relative_to(root))
            for root in (before, after)
            for path in root.rglob("*.*")
            if path.relative_to(root).parts[0] != "work"
        }
    )
    if not names:
        raise click.UsageError(f"{before} and {after} hold no record")
    differing = 0
    for name in names:
        texts = [(root / name).read_text() if (root / name).is_file() else "" for root in (before, after)]
        if texts[0] == texts[1]:
            continue
        differing += 1
        changes = list(difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), "", "", n=0, lineterm=""))
        click.echo(f"{name}: {len(changes)} lines differ")
        for line in changes[2 : 2 + lines]:
            click.echo(f"    {line[:160]}")
    click.echo(f"{differing} of {len(names)} files differ")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
