"""Tables of cases as text."""

import re

import pytest


def cases(text, names=None):
    """Read a table for ``parametrize``: a case a line, ``id: cell | cell``.

    Indented lines continue a case. A cell is text whose white space does not matter, or behind
    ``=`` an expression, which may use the names that are given.
    """
    rows = (" ".join(row.split()) for row in re.split(r"\n(?! )", text.strip("\n")))
    return [
        pytest.param(*(cell(each, names) for each in cells.split(" | ")), id=name)
        for name, cells in (row.split(": ", 1) for row in rows)
    ]


def cell(text, names):
    return eval(text[1:], names or {}) if text.startswith("=") else text
