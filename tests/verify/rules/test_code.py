"""Which part of a module's text a certificate depends on."""

import pytest

from onnx_passes.verify.rules.code import code_of

BEFORE = '''"""A module."""
from a.b import (
    c,
    d as e,  # a comment
)

def f(x):
    """Return x."""
    # One.
    return x + "#1"  # two
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', '"""Another\nmodule."""'),
        ("# two", "# three"),
        ("    # One.\n", ""),
        ("from a.b import", "from other.b import"),
        ('"""Return x."""', '"""Return x.\n\n    Twice.\n    """'),
    ],
)
def test_words_and_moves_do_not_count(old: str, new: str) -> None:
    assert code_of(BEFORE) == code_of(BEFORE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [('"#1"', '"#2"'), ("x +", "x -"), ("    c,", "    b,"), ("d as e", "e as d")],
)
def test_code_counts(old: str, new: str) -> None:
    assert code_of(BEFORE) != code_of(BEFORE.replace(old, new))
