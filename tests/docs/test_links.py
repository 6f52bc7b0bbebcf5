"""No page has a dead link: files are there, and so are the headings that anchors name."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.md"),
    *ROOT.glob("onnx_passes/**/*.md"),
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def prose(path):
    """Return a page without its code, where brackets are not links."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "code", text)


def anchors(path):
    """Return the anchors that headings get, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.S | re.M)
    found = set()
    for title in re.findall(r"^#+ (.+)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def dead(path):
    for target in LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists():
            yield f"{target}: no such file"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            yield f"{target}: no such heading"


def test_there_are_pages():
    assert len(PAGES) > 150


def test_the_pages_have_at_most_45000_words():
    apart = {"passes", "command-line", "glossary", "operators", "pipeline-files", "python-api"}
    read = [p for p in ROOT.glob("docs/**/*.md") if not {p.stem, p.parent.name} & apart]
    assert sum(len(p.read_text("utf-8").split()) for p in read) <= 45_000


def test_every_link_leads_somewhere():
    assert not {path: broken for path in PAGES if (broken := list(dead(path)))}


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n\n[a](page.md#one) [b](page.md#two) [c](none.md) `[d](no.md)`\n")
    assert list(dead(page)) == ["page.md#two: no such heading", "none.md: no such file"]


# The glossary has each term of the project, in one sentence.


ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.M)
TERMS = {
    *("application", "region", "frontier", "contract", "evidence", "certificate", "baseline"),
    *("noise", "drift", "culprit", "precondition", "checkpoint", "snapshot", "fixpoint"),
}


def rows():
    found = ROW.findall((ROOT / "docs" / "glossary.md").read_text("utf-8"))
    return [(term, text) for term, text in found if term not in ("Term", "---")]


def test_the_terms_are_there_once():
    terms = [term for term, _ in rows()]
    assert set(terms) >= TERMS
    assert len(terms) == len(set(terms))


def test_each_is_one_sentence():
    long = {
        term: text
        for term, text in rows()
        if not re.fullmatch(r"[A-Z][^.]*\.", re.sub(r"`[^`]*`", "code", text))
        or len(text.split()) > 25
    }
    assert not long
