import pytest

from onnx_passes.passes.eliminate.eliminate_noop_slice import EliminateNoopSlice


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,N] x) => (float[2,N] y)
            <int64[1] a = {0}, int64[1]
            b = {9223372036854775807}, int64[1] c = {1}, int64[1] d = {1}>
            { t = Slice(x, a, b, c, d) y = Exp(t) }""",
            """(float[2,N] x) => (float[2,N] y) { y = Exp(x) }""",
            id="to the end",
        ),
        pytest.param(
            """(float[2,N] x) => (float[2,N] y)
            <int64[1] a = {0}, int64[1] b = {7}, int64[1] c = {0}, int64[1] d = {1}>
            { t = Slice(x, a, b, c, d) y = Exp(t) }""",
            """(float[2,N] x) => (float[2,N] y) { y = Exp(x) }""",
            id="behind the end",
        ),
        pytest.param(
            """(float[2,N] x) => (float[2,N] y)
            <int64[1] a = {-2}, int64[1] b = {2}, int64[1] c = {0}, int64[1] d = {1}>
            { t = Slice(x, a, b, c, d) y = Exp(t) }""",
            """(float[2,N] x) => (float[2,N] y) { y = Exp(x) }""",
            id="before the start",
        ),
        pytest.param(
            """(float[2,N] x) => (float[2,N] y)
            <int64[1] a = {0}, int64[1]
            b = {2147483647}, int64[1] c = {-1}, int64[1] d = {1}>
            { t = Slice(x, a, b, c, d) y = Exp(t) }""",
            """(float[2,N] x) => (float[2,N] y) { y = Exp(x) }""",
            id="negative axis",
        ),
        pytest.param(
            """(float[2,N] x) => (float[2,N] y)
            <int64[2] a = {0, 0}, int64[2] b = {2, 2147483647}>
            { t = Slice(x, a, b) y = Exp(t) }""",
            """(float[2,N] x) => (float[2,N] y) { y = Exp(x) }""",
            id="no axes",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateNoopSlice(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2,N] x) => (float[M,K] y)
            <int64[1] a = {0}, int64[1] b = {1}, int64[1] c = {0}, int64[1] d = {1}>
            { y = Slice(x, a, b, c, d) }""",
            id="one less",
        ),
        pytest.param(
            """(float[2,N] x) => (float[M,K] y)
            <int64[1] a = {1}, int64[1] b = {2}, int64[1] c = {0}, int64[1] d = {1}>
            { y = Slice(x, a, b, c, d) }""",
            id="from the second",
        ),
        pytest.param(
            """(float[2,N] x) => (float[M,K] y)
            <int64[1] a = {-1}, int64[1]
            b = {-9223372036854775807}, int64[1] c = {0}, int64[1] d = {-1}>
            { y = Slice(x, a, b, c, d) }""",
            id="backwards",
        ),
        pytest.param(
            """(float[2,N] x) => (float[M,K] y)
            <int64[1] a = {0}, int64[1] b = {2}, int64[1] c = {0}, int64[1] d = {2}>
            { y = Slice(x, a, b, c, d) }""",
            id="steps",
        ),
        pytest.param(
            """(float[2,N] x) => (float[M,K] y)
            <int64[1] a = {0}, int64[1] b = {100}, int64[1] c = {1}, int64[1] d = {1}>
            { y = Slice(x, a, b, c, d) }""",
            id="unknown size",
        ),
        pytest.param(
            """(float[2,N] x) => (float[M,K] y)
            <int64[1] a = {0}, int64[1] b = {-1}, int64[1] c = {1}, int64[1] d = {1}>
            { y = Slice(x, a, b, c, d) }""",
            id="before the last",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateNoopSlice(), text)
