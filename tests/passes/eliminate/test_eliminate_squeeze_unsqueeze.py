import pytest

from onnx_passes.passes.eliminate.eliminate_squeeze_unsqueeze import EliminateSqueezeUnsqueeze


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,1] x) => (float[2,1] y) <int64[1] a = {1}, int64[1] b = {1}>
            { s = Squeeze(x, a) t = Unsqueeze(s, b) y = Exp(t) }""",
            """(float[2,1] x) => (float[2,1] y) { y = Exp(x) }""",
            id="squeeze first",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[2] a = {0, 2}, int64[2] b = {2, 0}>
            { s = Unsqueeze(x, a) t = Squeeze(s, b) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="unsqueeze first",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[2] a = {0, 2}, int64[2] b = {-2, 0}>
            { s = Unsqueeze(x, a) t = Squeeze(s, b) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="the-same-axes-counted-from-the-end-stayed",
        ),
        pytest.param(
            """(float[N,1,3] x) => (float[N,1,3] y) <int64[1] a = {-2}, int64[1] b = {1}>
            { s = Squeeze(x, a) t = Unsqueeze(s, b) y = Exp(t) }""",
            """(float[N,1,3] x) => (float[N,1,3] y) { y = Exp(x) }""",
            id="squeeze-first-counted-from-the-end",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateSqueezeUnsqueeze(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2] x) => (float[A,B] y) <int64[2] a = {0, 2}, int64[1] b = {0}>
            { s = Unsqueeze(x, a) y = Squeeze(s, b) }""",
            id="other axes",
        ),
        pytest.param(
            """(float[1,1,2] x) => (float[A,B,C] y) <int64[1] a = {0}, int64[1] b = {-2}>
            { s = Squeeze(x, a) y = Unsqueeze(s, b) }""",
            id="other axes counted from the end",
        ),
        pytest.param(
            """(float[1] x) => (float[1] y) <int64[1] a = {0}>
            { s = Squeeze(x) y = Unsqueeze(s, a) }""",
            id="all axes",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateSqueezeUnsqueeze(), text)
