import pytest

from onnx_passes.passes.eliminate.eliminate_noop_expand import EliminateNoopExpand


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[2] s = {1, 1}>
            { t = Expand(x, s) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="ones",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[2] s = {1, 3}>
            { t = Expand(x, s) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="own sizes",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[1] s = {3}>
            { t = Expand(x, s) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="fewer",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[2] s = {1, 1}>
            { t = Tile(x, s) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="tile",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateNoopExpand(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2,3] x) => (float[1,2,3] y) <int64[3] s = {1, 1, 1}>
            { y = Expand(x, s) }""",
            id="more dimensions",
        ),
        pytest.param(
            """(float[1,3] x) => (float[2,3] y) <int64[2] s = {2, 3}>
            { y = Expand(x, s) }""",
            id="bigger",
        ),
        pytest.param(
            """(float[N] x) => (float[M] y) <int64[1] s = {3}> { y = Expand(x, s) }""",
            id="dynamic",
        ),
        pytest.param(
            """(float[2] x) => (float[4] y) <int64[1] s = {2}> { y = Tile(x, s) }""",
            id="tile twice",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateNoopExpand(), text)
