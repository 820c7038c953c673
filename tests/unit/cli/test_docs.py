"""What README and docs show is what the examples say: each block named after an example is a piece of that file."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
NAMED = re.compile(r"<!-- example: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_is_a_piece_of_its_example(page):
    text = page.read_text()
    blocks = NAMED.findall(text)
    assert text.count("```python") == len(blocks), "every Python block is named after an example"
    for example, block in blocks:
        assert block in (TOP / example).read_text(), f"not in {example}:\n{block}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_example_is_shown_somewhere():
    shown = {example for page in PAGES for example, _ in NAMED.findall(page.read_text())}
    assert shown == {f"examples/{file.name}" for file in (TOP / "examples").glob("*.py")}
