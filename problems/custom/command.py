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
isolated (false for a trusted command that needs the network or a GPU).

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

from problems.address import did_you_mean
from problems.contract import BadAddress, Score, ScorerFault
from problems.custom.scorer_problem import DECLARED, SCORER_OPTIONS, SHIMS, ScorerProblem, checked_options
from problems.fingerprint import files_at, files_fingerprint, files_named_by
from problems.openevolve.evolve_block import NotSpliceable, language_of, regions, splice_answer
from problems.python_syntax import strip_fence
from problems.rows import read_mapping
from problems.sandbox.contract import EvaluatorSpec

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

_HEADER = re.compile(r"(?m)^[^\w\n=]*=== file: (\S+) ===[^\w\n]*$")
_MARK = "=== file: "
_HASH = (".py", ".sh", ".r", ".rb", ".pl", ".jl", ".yaml", ".yml", ".toml", ".mk", "")


def file_header(path: str) -> str:
    """The line that begins a file."""
    comment = "#" if PurePosixPath(path).suffix.lower() in _HASH else "//"
    return f"{comment} {_MARK}{path} ==="


def join_files(files: Mapping[str, str]) -> str:
    """One text; a single file is just its text."""
    if len(files) == 1:
        return next(iter(files.values()))
    return "\n".join(f"{file_header(path)}\n{text.rstrip()}\n" for path, text in files.items())


def split_files(answer: str, originals: Mapping[str, str], language: str) -> dict[str, str]:
    """Every file of `originals` with the answer's changes; files that it does not name stay as they are.

    language: of code fences. Raises NotSpliceable, with the right form, for an answer that does not fit into them.
    """
    if len(originals) == 1:
        ((path, original),) = originals.items()
        return {path: splice_answer(original, answer, language)}
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    fenced = strip_fence(text, language, wanted=_MARK)
    text = fenced if _HEADER.search(fenced) else text  # else each file may be in a separate fence
    headers = list(_HEADER.finditer(text))
    if not headers:
        raise NotSpliceable(
            f"the answer names no file; begin each with a line such as {file_header(next(iter(originals)))}"
        )
    changed = dict(originals)
    for at, header in enumerate(headers):
        path = header[1]
        if path not in originals:
            raise NotSpliceable(f"the answer names {path}, which is no file of the program; {', '.join(originals)} are")
        end = headers[at + 1].start() if at + 1 < len(headers) else len(text)
        try:
            changed[path] = splice_answer(originals[path], text[header.end() : end], language)
        except NotSpliceable as reason:
            raise NotSpliceable(f"{path}: {reason}") from None
    return changed


_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


class FilesProblem(ScorerProblem):
    """A scorer of a program. Subclasses set, before the rest is made:

    originals: the texts of its files by their paths; language: of code fences
    """

    originals: Mapping[str, str]
    language: str

    def _split(self, answer: str) -> dict[str, str]:
        return split_files(answer, self.originals, self.language)

    def canonical(self, answer: str) -> str:
        """All files of the program with the answer's contents (problems.openevolve.evolve_block.splice); an answer that
        fits into none stays as it is, out of its code fence, for `score` to fail."""
        try:
            return join_files(self._split(answer))
        except NotSpliceable:
            return strip_fence(answer, self.language)

    def files_of(self, answer: str) -> dict[str, str]:
        """All files of the program, with the answer's contents as far as it fits into them."""
        if len(self.originals) == 1:
            return dict.fromkeys(self.originals, answer)
        try:
            return self._split(answer)
        except NotSpliceable:
            return dict(self.originals)

    def answer_of(self, files: Mapping[str, str]) -> str:
        """The files as one text; one that is missing stays as the program has it."""
        return join_files({name: files.get(name, original) for name, original in self.originals.items()})

    def _refusal(self, answer: str) -> str:
        try:
            self._split(answer)
        except NotSpliceable as reason:
            return str(reason)
        unwritable = _UNWRITABLE.search(answer)
        return "the program holds a null character or half a character, which no source file can" if unwritable else ""


FILE = "problem.yaml"
_KEYS = ("command", "files", *(key for key in DECLARED if key not in ("seed_answer", "answer_format")), *SCORER_OPTIONS)


def is_command_file(path: Path) -> bool:
    """Whether a YAML file names a command at its top level."""
    try:
        return "command" in read_mapping(path)
    except BadAddress:
        return False


class CommandProblem(FilesProblem):
    """The file as a Problem. Raises BadAddress, one line, for a file of another form."""

    def __init__(self, path: Path, sandbox: Callable[[], Sandbox]) -> None:
        self.path = path.resolve()
        self.folder = self.path.parent
        self.name = str(self.folder if self.path.name == FILE else self.path)
        read = _read(self.path)
        self.originals = _originals(self.path, read.get("files"))
        self.language = language_of(Path(next(iter(self.originals))))
        python = all(file.endswith(".py") for file in self.originals)
        options = checked_options(str(self.path), self.folder, read)
        passed_on = {"command": read["command"], "folder": str(self.folder), "files": list(self.originals)}
        spec = EvaluatorSpec(
            str(SHIMS / "command_scorer.py"),
            readable=(str(self.folder), str(SHIMS), *options.readable),
            isolated=options.isolated,
            folder=str(self.folder),
            environment={"EVO_COMMAND": json.dumps(passed_on)},
        )
        about = {**{key: read.get(key) for key in DECLARED}, "answer_format": "python" if python else "text"}
        super().__init__(str(self.path), spec, sandbox, options, {**about, "seed_answer": join_files(self.originals)})

    def statement(self) -> str:
        """The file's statement, and the form of an answer."""
        marked = [name for name, text in self.originals.items() if (split := regions(text)) and split.blocks]
        form = [f"The program is {', '.join(self.originals)} ({self.language})."]
        if len(self.originals) > 1:
            first = file_header(next(iter(self.originals)))
            form.append(f"An answer begins each file that it changes with a line like `{first}`; the others stay.")
        if marked:
            form.append(f"In {', '.join(marked)} only what stands between EVOLVE-BLOCK-START and -END may change.")
        return f"{super().statement()}\n\n{' '.join(form)}"

    def score(self, answer: str) -> Score:
        self._raise_own_fault()
        try:
            return super().score(answer)
        except ScorerFault as fault:
            return self._failure(str(fault))

    def fingerprint(self) -> str:
        """The fingerprint of the file, the program, the files that these can use next to them, and all that
        `readable` names."""
        files = files_named_by([self.path, *(self.folder / name for name in self.originals)], self.folder)
        return files_fingerprint(self.folder, files | files_at(self._readable))

    def _value(self, function: str, answer: str) -> Any:
        return super()._value(function, self._split(answer))

    def _learn(self) -> None:
        super()._learn()
        if self._seed is None:  # its objectives were declared, and it was not run yet
            value = self._seed_value()
            self._seed = lambda problem: problem._score_of(value)
            self._seed(self)  # it may be at fault


def _read(path: Path) -> dict[str, Any]:
    read = read_mapping(path)
    if not isinstance(read.get("command"), str) or not read["command"].strip():
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
