"""Pages, docstrings and comments are read once: sentences are short, and words are plain.

``avoid.toml`` lists the words. A folder that is not named in a table below has none, and a
number may only fall.
"""

import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.words import prose

ROOT = Path(__file__).parents[2]
AVOID = {
    re.compile(row["pattern"], re.IGNORECASE): row["write"]
    for row in tomllib.loads(Path(__file__).with_name("avoid.toml").read_text("utf-8"))[
        "avoid"
    ]
}
ANY = re.compile("|".join(pattern.pattern for pattern in AVOID), re.IGNORECASE)
ENTRY = re.compile(r"\w+: ")
"""An argument or a field at the start of a paragraph: names of code are not prose."""
LIST = re.compile("Leaves alone:|Finds:|Adds:")
"""What begins a list in the docstring of a pass; semicolons end its items."""
FOLDERS = ("benchmarks", "docs", "examples", "onnx_passes", "tests")
WORDS = 30
"""How long a sentence may be; a code span is one word."""

PIECES: dict[str, int] = {}
"""Sentences that are too long even if they end at colons and semicolons."""
SENTENCES: dict[str, int] = {}
"""Sentences that are too long up to their full stop, or a colon before a list."""
PHRASES: dict[str, int] = {}
"""Matches of the words to avoid."""


def files():
    """Return the pages and modules; pages of passes are made of docstrings."""
    found = [*ROOT.glob("*.md")]
    for folder in FOLDERS:
        found += [*ROOT.joinpath(folder).rglob("*.md"), *ROOT.joinpath(folder).rglob("*.py")]
    return [path for path in sorted(found) if (ROOT / "docs" / "passes") not in path.parents]


def room(path):
    """Return the folder that a file is counted with, from the root."""
    parts = path.relative_to(ROOT).parts
    depth = 2 if parts[0] == "onnx_passes" and len(parts) > 2 else 1
    return "/".join(parts[:depth])


@cache
def paragraphs():
    """Return all prose but comments, as the path, line and text of each paragraph."""
    return [(path, *each) for path in files() for each in prose.paragraphs(path)]


def too_long(ends):
    for path, line, text in paragraphs():
        if len(text.split()) <= WORDS:
            continue
        listed = ";" if LIST.match(text) else ""
        for sentence in prose.sentences(text, ends + listed):
            if len(sentence.split()) > WORDS:
                yield path, line, sentence


def avoided():
    modules = [path for path in files() if path.suffix == ".py"]
    remarks = [(p, *each) for p in modules for each in prose.comments(p.read_text("utf-8"))]
    for path, line, text in [*paragraphs(), *remarks]:
        if not ANY.search(text):
            continue
        plain = ENTRY.sub("", prose.without_code(text))
        for pattern, instead in AVOID.items():
            for match in pattern.finditer(plain):
                yield path, line, f"{match[0]!r}: write: {instead}"


KINDS = {
    "pieces": (lambda: too_long(".?!:;"), PIECES),
    "sentences": (lambda: too_long(".?!"), SENTENCES),
    "phrases": (avoided, PHRASES),
}


@pytest.mark.parametrize("kind", KINDS)
def test_prose_has_to_be_read_twice_ever_less(kind):
    find, allowed = KINDS[kind]
    found = list(find())
    counts = Counter(room(path) for path, _, _ in found)
    more = {name for name, count in counts.items() if count > allowed.get(name, 0)}
    places = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path, line, what in found
        if room(path) in more
    ]
    assert not more, "\n".join([str(dict(counts)), *places])
    gone = {name: counts[name] for name, count in allowed.items() if counts[name] < count - 5}
    assert not gone, f"fewer are left: lower the numbers to {gone}"
