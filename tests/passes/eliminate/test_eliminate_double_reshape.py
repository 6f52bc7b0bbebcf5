import pytest

from onnx_passes.passes.eliminate.eliminate_double_reshape import EliminateDoubleReshape


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,N] x) => (float[A,B] y)
            <int64[3] s = {2, -1, 1}, int64[2] t = {-1, 2}>
            { a = Reshape(x, s) y = Reshape(a, t) }""",
            """(float[2,N] x) => (float[A,B] y) <int64[2] t = {-1, 2}>
            { y = Reshape(x, t) }""",
            id="reshape",
        ),
        pytest.param(
            """(float[2,N] x) => (float[A,B] y) <int64[2] t = {-1, 2}>
            { a = Flatten<axis = 0>(x) y = Reshape(a, t) }""",
            """(float[2,N] x) => (float[A,B] y) <int64[2] t = {-1, 2}>
            { y = Reshape(x, t) }""",
            id="flatten",
        ),
        pytest.param(
            """(float[2,N] x) => (float[A,B] y) <int64[1] s = {0}, int64[2] t = {-1, 2}>
            { a = Unsqueeze(x, s) y = Reshape(a, t) }""",
            """(float[2,N] x) => (float[A,B] y) <int64[2] t = {-1, 2}>
            { y = Reshape(x, t) }""",
            id="unsqueeze",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateDoubleReshape(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2,N] x) => (float[A,B] y)
            <int64[3] s = {2, -1, 1}, int64[2] t = {0, -1}>
            { a = Reshape(x, s) y = Reshape(a, t) }""",
            id="copies a dimension of the tensor between",
        ),
        pytest.param(
            """(float[2,N] x, int64[2] t) => (float[A,B] y) <int64[3] s = {2, -1, 1}>
            { a = Reshape(x, s) y = Reshape(a, t) }""",
            id="computed target",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateDoubleReshape(), text)
