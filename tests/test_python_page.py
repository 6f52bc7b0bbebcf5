"""The page on Python: each example gives what it shows."""

import doctest
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_examples_give_what_the_page_shows(monkeypatch):
    monkeypatch.chdir(ROOT / "examples" / "digits")
    found = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)
    assert found.attempted > 10
    assert found.failed == 0
