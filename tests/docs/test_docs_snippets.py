"""Every command and every snippet of the README, of docs/, CONTRIBUTING.md and examples/: done, or at least read.

How a block is tested stands before it, in a comment (see snippets)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from following import checked, follow, write_file
from parsing import check_python, check_settings, check_words
from snippets import KINDS, ROOT, commands_of, pages, read_snippets

PAGES = {str(page.relative_to(ROOT)): read_snippets(page) for page in pages()}
WITH = {kind: [page for page, blocks in PAGES.items() if any(b.kind == kind for b in blocks)] for kind in KINDS}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a page's blocks are done: the repository's root as far as they see it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVO_DB", raising=False)
    monkeypatch.setattr("evo.comparison.workers.cores", lambda: 1)  # as following.ALWAYS, for Python's blocks
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_how_it_is_tested(page):
    for block in PAGES[page]:
        if block.language != "text":
            assert block.kind in KINDS, f"{block.place}: a comment <!-- test: ... --> is missing before this block"
        if block.kind == "check":
            assert block.detail, f"{block.place}: why is this not run?"


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_commands_and_settings_can_be_read(page, folder):
    for block in PAGES[page]:
        if block.kind == "file":
            write_file(block)
        elif block.kind == "settings":
            path = f"{block.line}.yaml"
            Path(path).write_text(block.text)
            checked(block, check_settings, block.detail, block.text, path)
        elif block.language == "python":
            checked(block, check_python, block)
        elif block.language == "sh":
            for words in commands_of(block.text):
                checked(block, check_words, words)


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if page in WITH["run"] or page in WITH["long"]])
def test_pages_can_be_followed(page, folder, one_thread):
    """CI follows the README in an environment of its reader."""
    follow(PAGES[page])


def test_blocks_and_their_commands_are_found():
    """Counts that fall where the reader of pages stops to find what is there."""
    blocks = [block for found in PAGES.values() for block in found]
    assert len(blocks) >= 60
    assert sum(block.kind == "run" for block in blocks) >= 20
    text = "a --x 'b;c' # d\nV=1 evo runs; evo show e \\\n  --json && pip install -e .\n"
    assert commands_of(text) == [
        ["a", "--x", "b;c"],
        ["evo", "runs"],
        ["evo", "show", "e", "--json"],
        ["pip", "install", "-e", "."],
    ]


@pytest.mark.parametrize(
    "words",
    ["evo run maze:test --iteratoins 3", "evo searhc", "evo run maze:test --policy scripted:nobody", "nosuch -x",
     "evo train ppo maze:train -o a", "evo compare maze:test --arm a=b,sped=3", "pip install -e '.[nosuch]'",
     "python -m nosuch", "docker compose run --rm evo nosuch", "docker compose exec ray evo runs --nosuch",
     "evo evaluate maze:test --policy 'embedded:base?temperature=hot'"],
)  # fmt: skip
def test_what_is_wrong_in_a_page_is_found(words):
    (found,) = commands_of(words)
    with pytest.raises(Exception, match=r"\w"):
        check_words(found)
