import pytest

from onnx_passes.passes.eliminate.eliminate_noop_cast import EliminateNoopCast


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { t = Cast<to = 1>(x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="same",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)  { t = CastLike(x, x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="like",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateNoopCast(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2] x) => (int64[2] y)  { y = Cast<to = 7>(x) }""",
            id="other type",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)
            { t = Cast<to = 8>(x) y = Cast<to = 1>(t) }""",
            id="string",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateNoopCast(), text)
