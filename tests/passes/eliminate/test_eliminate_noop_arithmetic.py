import pytest

from onnx_passes.passes.eliminate.eliminate_noop_arithmetic import EliminateNoopArithmetic


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float[1] c = {1}>
            { t = Mul(x, c) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="mul",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float[1] c = {1}>
            { t = Mul(c, x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="mul flipped",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float[1] c = {1}>
            { t = Div(x, c) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="div",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float[1] c = {0}>
            { t = Sub(x, c) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="sub",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float[1] c = {-0.0}>
            { t = Add(x, c) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="add minus zero",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float[1] c = {1}>
            { t = Pow(x, c) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="pow",
        ),
        pytest.param(
            """(int64[2,3] x) => (int64[2,3] y) <int64 c = {0}>
            { t = Add(c, x) y = Abs(t) }""",
            """(int64[2,3] x) => (int64[2,3] y) { y = Abs(x) }""",
            id="integer add",
        ),
        pytest.param(
            """(int64[2,3] x) => (int64[2,3] y) <int64 c = {-1}>
            { t = BitwiseAnd(x, c) y = Abs(t) }""",
            """(int64[2,3] x) => (int64[2,3] y) { y = Abs(x) }""",
            id="bitwise and",
        ),
        pytest.param(
            """(int64[2,3] x) => (int64[2,3] y) <int64 c = {0}>
            { t = BitwiseOr(x, c) y = Abs(t) }""",
            """(int64[2,3] x) => (int64[2,3] y) { y = Abs(x) }""",
            id="bitwise or",
        ),
        pytest.param(
            """(bool[2] x) => (bool[2] y) <bool c = {1}> { t = And(x, c) y = Not(t) }""",
            """(bool[2] x) => (bool[2] y) { y = Not(x) }""",
            id="and",
        ),
        pytest.param(
            """(uint8[2] x) => (uint8[2] y) <uint8 c = {0}>
            { t = BitShift<direction = "LEFT">(x, c) y = BitwiseNot(t) }""",
            """(uint8[2] x) => (uint8[2] y) { y = BitwiseNot(x) }""",
            id="shift",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateNoopArithmetic(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "(int64[2] x) => (int64[2] y) <int64 c = {1}> { y = Pow(x, c) }",
            id="power of integers",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float c = {0}> { y = Add(x, c) }""",
            id="plus zero turns -0 into 0",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float c = {0}> { y = Sub(c, x) }""",
            id="zero minus",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float c = {1}> { y = Div(c, x) }""",
            id="one over",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float c = {1}> { y = Pow(c, x) }""",
            id="one to the power",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float c = {-0.0}> { y = Sub(x, c) }""",
            id="minus minus zero",
        ),
        pytest.param(
            """(float[3] x) => (float[2,3] y) <float[2,1] c = {1, 1}> { y = Mul(x, c) }""",
            id="bigger",
        ),
        pytest.param(
            """(float[N] x) => (float[3] y) <float[3] c = {1, 1, 1}> { y = Mul(x, c) }""",
            id="dynamic against many",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <float[3] c = {1, 1, 2}>
            { y = Mul(x, c) }""",
            id="one other element",
        ),
        pytest.param(
            """(float[2] x, float c) => (float[2] y) <float c = {1}> { y = Mul(x, c) }""",
            id="a default that callers may override",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateNoopArithmetic(), text)
