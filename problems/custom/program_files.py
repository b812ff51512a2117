"""A program of one file or several as one text, and a scorer of such a program of which only parts may change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from problems.custom.scorer_problem import ScorerProblem
from problems.openevolve.evolve_block import NotSpliceable, splice_answer
from problems.python_syntax import strip_fence

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
        return {path: splice_answer(original, answer, language)}
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
