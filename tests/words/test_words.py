"""Pages, docstrings and comments are read once: sentences are short, and words are plain.

``avoid.toml`` lists the words.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

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


def files():
    """Return the pages and modules; pages of passes are made of docstrings."""
    found = [*ROOT.glob("*.md")]
    for folder in FOLDERS:
        found += [*ROOT.joinpath(folder).rglob("*.md"), *ROOT.joinpath(folder).rglob("*.py")]
    return [path for path in sorted(found) if (ROOT / "docs" / "passes") not in path.parents]


@cache
def paragraphs():
    """Return all prose but comments, as the path, line and text of each paragraph."""
    return [(path, *each) for path in files() for each in prose.paragraphs(path)]


def too_long():
    """Yield sentences that are too long up to their full stop, or a colon before a list."""
    for path, line, text in paragraphs():
        if len(text.split()) <= WORDS:
            continue
        listed = ";" if LIST.match(text) else ""
        for sentence in prose.sentences(text, ".?!" + listed):
            if len(sentence.split()) > WORDS:
                yield path, line, sentence


def comments_of(path):
    """Return the comments of a module, or none if no word to avoid is behind any ``#``."""
    text = path.read_text("utf-8")
    behind = (line.partition("#")[2].lstrip("# ") for line in text.splitlines())
    return prose.comments(text) if ANY.search(" ".join(filter(None, behind))) else ()


def avoided():
    modules = [path for path in files() if path.suffix == ".py"]
    comments = [(path, *each) for path in modules for each in comments_of(path)]
    for path, line, text in [*paragraphs(), *comments]:
        if not ANY.search(text):
            continue
        plain = ENTRY.sub("", prose.without_code(text))
        for pattern, instead in AVOID.items():
            for match in pattern.finditer(plain):
                yield path, line, f"{match[0]!r}: write: {instead}"


def test_sentences_are_short_and_words_plain():
    found = [*too_long(), *avoided()]
    places = [f"{path.relative_to(ROOT)}:{line}: {what}" for path, line, what in found]
    assert not places, "\n".join(places)
