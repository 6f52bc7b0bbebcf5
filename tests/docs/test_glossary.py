"""The glossary has each term of the project, in one sentence."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.M)
TERMS = {
    *("application", "region", "frontier", "contract", "evidence", "certificate", "baseline"),
    *("noise", "drift", "culprit", "precondition", "checkpoint", "snapshot", "fixpoint"),
}


def rows():
    found = ROW.findall((DOCS / "glossary.md").read_text("utf-8"))
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
