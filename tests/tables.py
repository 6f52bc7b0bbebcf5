"""Tables of cases as text."""

import ast
import re

import pytest


def cases(text):
    """Read a table for ``parametrize``: a case a paragraph line, ``id: cell | cell``.

    Indented lines continue a case. A cell is text whose white space does not matter, or behind
    ``=`` a Python literal.
    """
    rows = (" ".join(row.split()) for row in re.split(r"\n(?! )", text.strip("\n")))
    return [
        pytest.param(*map(cell, cells.split(" | ")), id=name)
        for name, cells in (row.split(": ", 1) for row in rows)
    ]


def cell(text):
    return ast.literal_eval(text[1:]) if text.startswith("=") else text
