import pytest

from onnx_passes.passes.eliminate.eliminate_repeated_unary import EliminateRepeatedUnary
from tests.tables import cases


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(bool[2] x) => (bool[2] y) { a = Not(x) b = Not(a) y = And(b, x) }""",
            """(bool[2] x) => (bool[2] y) { y = And(x, x) }""",
            id="not",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { a = Neg(x) b = Neg(a) y = Exp(b) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="neg",
        ),
        pytest.param(
            """(float[2] x) => (float[2] y) { a = Relu(x) y = Relu(a) }""",
            """(float[2] x) => (float[2] y) { y = Relu(x) }""",
            id="relu",
        ),
        pytest.param(
            """(float[2] x) => (float[2] y) { a = Ceil(x) y = Floor(a) }""",
            """(float[2] x) => (float[2] y) { y = Ceil(x) }""",
            id="floor of ceil",
        ),
        pytest.param(
            """(float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }""",
            """(float[2] x) => (float[2] y) { y = Abs(x) }""",
            id="abs of neg",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateRepeatedUnary(), before, after)


@pytest.mark.parametrize(
    "text",
    cases(
        """
neg of abs: (float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }
relu of neg: (float[2] x) => (float[2] y) { a = Neg(x) y = Relu(a) }
"""
    ),
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateRepeatedUnary(), text)
