import pytest

from onnx_passes.passes.eliminate.eliminate_single_operand import EliminateSingleOperand


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { t = Max(x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="Max",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { t = Min(x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="Min",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { t = Sum(x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="Sum",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { t = Mean(x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="Mean",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { t = Concat<axis = 1>(x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="Concat",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)
            { t = Split<num_outputs = 1>(x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="Split",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateSingleOperand(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { y = Max(x, x) }""",
            id="two",
        ),
        pytest.param(
            """(float[2] x) => (float[1] y, float[1] z)
            { y, z = Split<num_outputs = 2>(x) }""",
            id="two parts",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateSingleOperand(), text)
