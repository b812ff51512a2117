"""A scorer that is any command: a file problem.yaml next to the program to improve, in any language.

    command: cc -O2 -o main main.c && ./main      # a line for sh
    files: [main.c]                                # the candidate: one file or several, relative to this one
    statement: Make it print a larger number.

The command runs in the sandbox, in a separate folder with the candidate's files and a copy of all other files next
to problem.yaml; it may run its compiled programs there. It ends with status 0 and prints, as the last line of its
standard output, a JSON object of numbers by name (read like the result of score() in a scorer file:
problems.custom.scorer_file), or one number. Any other status or last line is the answer's fault, and the output is
its feedback: commands commonly run the candidate. For the same reason names and numbers that do not fit are the
answer's fault too, except the seed's. A command that lets the candidate print the last line trusts its claim: run
the candidate, and print your measurement.

Further keys: objectives, target, directions, weights, timeout (seconds, 30), readable (more files and folders),
isolated (false for a trusted command that needs the network or a GPU), resources (as in {gpus: 1}).

A candidate of several files is one text, in which a line names each file where it begins:

    # === file: src/model.py ===

The line is a comment in the file's language, so Python files together are still one Python text. A file without
EVOLVE-BLOCKs may change completely; in a file with them, only their contents (problems.openevolve.evolve_block).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml

from problems.address import did_you_mean
from problems.contract import BadAddress, Score, ScorerFault
from problems.custom.scorer_problem import LIMITS, SHIMS, Failed, ScorerProblem, ScorerProcess, checked_options
from problems.fingerprint import files_below, files_fingerprint, files_named_by
from problems.openevolve.evolve_block import NotSpliceable, language_of, regions, splice
from problems.python_syntax import strip_fence
from problems.sandbox.contract import EvaluatorSpec

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

FILE = "problem.yaml"
_KEYS = (
    "command",
    "files",
    "statement",
    "objectives",
    "target",
    "directions",
    "weights",
    "timeout",
    "readable",
    "isolated",
    "resources",
)


def is_command_file(path: Path) -> bool:
    """Whether a YAML file names a command at its top level."""
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    return isinstance(read, dict) and "command" in read


class CommandProblem(ScorerProblem):
    """The file as a Problem. Raises BadAddress, one line, for a file of another form."""

    def __init__(self, path: Path, sandbox: Callable[[], Sandbox]) -> None:
        self.path = path.resolve()
        self.folder = self.path.parent
        self.name = str(self.folder if self.path.name == FILE else self.path)
        self._read = _read(self.path)
        self.originals = _originals(self.path, self._read.get("files"))
        self.language = language_of(Path(next(iter(self.originals))))
        python = all(file.endswith(".py") for file in self.originals)
        self._format = "python" if python else "text"
        checked = checked_options(str(self.path), self.folder, self._read)
        self._readable = checked.readable
        fingerprinted = {"command": self._read["command"], "folder": str(self.folder), "files": list(self.originals)}
        spec = EvaluatorSpec(
            str(SHIMS / "command_scorer.py"),
            readable=(str(self.folder), str(SHIMS), *self._readable),
            isolated=checked.isolated,
            builds=True,
            environment={"EVO_COMMAND": json.dumps(fingerprinted)},
        )
        super().__init__(str(self.path), ScorerProcess(self.path, spec, LIMITS, sandbox), checked)
        if self.fault is None and self._seed is None:  # its objectives were declared, and it was not run yet
            self._run_seed()

    def statement(self) -> str:
        """The file's statement, and the form of an answer."""
        marked = [name for name, text in self.originals.items() if (split := regions(text)) and split.blocks]
        form = [f"The program is {', '.join(self.originals)} ({self.language})."]
        if len(self.originals) > 1:
            first = header_of(next(iter(self.originals)))
            form.append(f"An answer begins each file that it changes with a line like `{first}`; the others stay.")
        if marked:
            form.append(f"In {', '.join(marked)} only what stands between EVOLVE-BLOCK-START and -END may change.")
        return f"{super().statement()}\n\n{' '.join(form)}"

    def canonical(self, answer: str) -> str:
        """All files of the program with the answer's contents; an answer that fits into none stays as it is."""
        try:
            return join_files(split_files(answer, self.originals, self.language))
        except NotSpliceable:
            return strip_fence(answer, self.language)

    def files_of(self, answer: str) -> dict[str, str]:
        """All files of the program, with the answer's contents as far as it fits into them."""
        try:
            return split_files(answer, self.originals, self.language)
        except NotSpliceable:
            return dict(self.originals)

    def answer_of(self, files: Mapping[str, str]) -> str:
        """The files as one text."""
        return join_files({name: files.get(name, original) for name, original in self.originals.items()})

    def score(self, answer: str) -> Score:
        if self.fault is not None:
            raise self.fault
        try:
            split_files(answer, self.originals, self.language)
        except NotSpliceable as reason:
            return Score.failure(len(self.objectives), str(reason))
        if any(mark in answer for mark in "\0") or not _encodable(answer):
            return Score.failure(len(self.objectives), "a character that no file can hold")
        try:
            return super().score(answer)
        except ScorerFault as fault:
            return Score.failure(len(self.objectives), " ".join(str(fault).split())[:300], str(fault))

    def fingerprint(self) -> str:
        """The fingerprint of the file, the program, the files that these can use next to them, and all that
        `readable` names."""
        files = files_named_by([self.path, *(self.folder / name for name in self.originals)], self.folder)
        for place in map(Path, self._readable):
            files.update([place] if place.is_file() else files_below(place))
        return files_fingerprint(self.folder, files)

    def _declared(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        keys = ("statement", "objectives", "target", "directions", "weights")
        declared = {key: self._read.get(key) for key in keys}
        return {
            **declared,
            "seed_answer": join_files(self.originals),
            "canonical": False,
            "answer_format": self._format,
        }

    def _question(self, answer: str) -> Any:
        return split_files(answer, self.originals, self.language)

    def _run_seed(self) -> None:
        try:
            value = self._asked(self._seed_text)
            if isinstance(value, Failed):
                raise ScorerFault(f"{self.where}: the program as it is fails: {value.reason}")
            self._seed = self._shape.score(value)
        except ScorerFault as fault:
            self.fault = fault


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadAddress(f"cannot read {path}: {' '.join(str(error).split())}") from None
    if not isinstance(read, dict) or not isinstance(read.get("command"), str) or not read["command"].strip():
        raise BadAddress(f"{path}: `command` has to be a line for sh")
    if unknown := sorted(map(str, set(read) - set(_KEYS))):
        hint = did_you_mean(unknown[0], _KEYS, most=1) or f"; there are {', '.join(_KEYS)}"
        raise BadAddress(f"{path}: unknown key {', '.join(unknown)}{hint}")
    return read


def _originals(path: Path, files: Any) -> dict[str, str]:
    """Name -> text of the candidate's files."""
    names = [files] if isinstance(files, str) else files
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise BadAddress(f"{path}: `files` has to name the candidate's file, or a list of them")
    originals = {}
    for name in names:
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or any(mark.isspace() for mark in name):
            raise BadAddress(f"{path}: files names {name!r}; a path below the folder of {path.name}, without spaces")
        try:
            originals[str(place)] = (path.parent / place).read_text(encoding="utf-8").replace("\r\n", "\n")
        except (OSError, ValueError) as error:  # ValueError: of a text that is none, or of a name that no file can have
            shown = name if name.isprintable() else ascii(name)
            raise BadAddress(f"{path}: cannot read {shown}: {error}") from None
    return originals


_HEADER = re.compile(r"(?m)^[^\w\n=]*=== file: (\S+) ===[^\w\n]*$")
_MARK = "=== file: "
_HASH = (".py", ".sh", ".r", ".rb", ".pl", ".jl", ".yaml", ".yml", ".toml", ".mk", "")


def header_of(path: str) -> str:
    """The line that begins a file."""
    comment = "#" if PurePosixPath(path).suffix.lower() in _HASH else "//"
    return f"{comment} {_MARK}{path} ==="


def join_files(files: Mapping[str, str]) -> str:
    """One text; a single file is just its text."""
    if len(files) == 1:
        return next(iter(files.values()))
    return "\n".join(f"{header_of(path)}\n{text.rstrip()}\n" for path, text in files.items())


def split_files(answer: str, originals: Mapping[str, str], language: str) -> dict[str, str]:
    """Every file of `originals` with the answer's changes; files that it does not name stay as they are.

    language: of code fences. Raises NotSpliceable, with the right form, for an answer that does not fit into them.
    """
    if len(originals) == 1:
        ((path, original),) = originals.items()
        return {path: _put(path, original, strip_fence(answer, language))}
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    fenced = strip_fence(text, language, wanted=_MARK)
    text = fenced if _HEADER.search(fenced) else text  # else each file may be in a separate fence
    headers = list(_HEADER.finditer(text))
    if not headers:
        raise NotSpliceable(
            f"the answer names no file; begin each with a line such as {header_of(next(iter(originals)))}"
        )
    changed = dict(originals)
    for at, header in enumerate(headers):
        path = header[1]
        if path not in originals:
            raise NotSpliceable(f"the answer names {path}, which is no file of the program; {', '.join(originals)} are")
        end = headers[at + 1].start() if at + 1 < len(headers) else len(text)
        changed[path] = _put(path, originals[path], strip_fence(text[header.end() : end], language))
    return changed


def _put(path: str, original: str, given: str) -> str:
    try:
        return splice(original, given)
    except NotSpliceable as reason:
        raise NotSpliceable(f"{path}: {reason}") from None
