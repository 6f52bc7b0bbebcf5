import pytest

from onnx_passes.passes.eliminate.eliminate_noop_pad import EliminateNoopPad


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[4] s = {0, 0, 0, 0}>
            { t = Pad(x, s) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="zeros",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[4] s = {0, 0, 0, 0}>
            { t = Pad<mode = "reflect">(x, s) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="reflect",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateNoopPad(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2] x) => (float[3] y) <int64[2] s = {0, 1}> { y = Pad(x, s) }""",
            id="one",
        ),
        pytest.param(
            """(float[2] x, int64[2] s) => (float[N] y) { y = Pad(x, s) }""",
            id="computed",
        ),
        pytest.param(
            """(float[2] x) => (float[2] y) <int64[2] s = {-1, 1}> { y = Pad(x, s) }""",
            id="crops and pads",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateNoopPad(), text)
