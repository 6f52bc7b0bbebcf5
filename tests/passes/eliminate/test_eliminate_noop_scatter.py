import pytest

from onnx_passes.passes.eliminate.eliminate_noop_scatter import EliminateNoopScatter


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,3] x, float[2,3] u) => (float[2,3] y) <int64[2,1] i = {0, 1}>
            { t = ScatterND(x, i, u) y = Relu(t) }""",
            "(float[2,3] x, float[2,3] u) => (float[2,3] y) { y = Relu(u) }",
            id="all-rows",
        ),
        pytest.param(
            """(float[2,2] x, float[2,2] u) => (float[2,2] y)
            <int64[2,2,2] i = {0, 0, 0, -1, 1, 0, 1, 1}>
            { t = ScatterND(x, i, u) y = Relu(t) }""",
            "(float[2,2] x, float[2,2] u) => (float[2,2] y) { y = Relu(u) }",
            id="all-elements",
        ),
        pytest.param(
            """(float[2,2] x, float[2,2] u) => (float[2,2] y) <int64[2,2] i = {0, -1, 0, 1}>
            { t = ScatterElements<axis = 1>(x, i, u) y = Relu(t) }""",
            "(float[2,2] x, float[2,2] u) => (float[2,2] y) { y = Relu(u) }",
            id="elements-along-an-axis",
        ),
        pytest.param(
            """(float[2,3] x, float[0,3] u) => (float[2,3] y) <int64[0,1] i = {}>
            { t = ScatterND<reduction = "add">(x, i, u) y = Relu(t) }""",
            "(float[2,3] x, float[0,3] u) => (float[2,3] y) { y = Relu(x) }",
            id="nothing",
        ),
        pytest.param(
            """(float[2,3] x, float[0,2,3] u) => (float[2,3] y) <int64[0,0] i = {}>
            { t = ScatterND(x, i, u) y = Relu(t) }""",
            "(float[2,3] x, float[0,2,3] u) => (float[2,3] y) { y = Relu(x) }",
            id="no-index-of-depth-0",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateNoopScatter(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2,3] x, float[2,3] u) => (float[2,3] y) <int64[2,1] i = {1, 0}>
            { y = ScatterND(x, i, u) }""",
            id="another-order",
        ),
        pytest.param(
            """(float[3,3] x, float[2,3] u) => (float[3,3] y) <int64[2,1] i = {0, 1}>
            { y = ScatterND(x, i, u) }""",
            id="a-part",
        ),
        pytest.param(
            """(float[2,3] x, float[2,3] u) => (float[2,3] y) <int64[2,1] i = {0, 1}>
            { y = ScatterND<reduction = "add">(x, i, u) }""",
            id="added",
        ),
        pytest.param(
            """(float[N,3] x, float[2,3] u) => (float[N,3] y) <int64[2,1] i = {0, 1}>
            { y = ScatterND(x, i, u) }""",
            id="unknown-size",
        ),
        pytest.param(
            """(float[2,2] x, float[2,2] u) => (float[2,2] y) <int64[2,2] i = {0, 1, 0, 1}>
            { y = ScatterElements<axis = 0>(x, i, u) }""",
            id="elements-along-the-other-axis",
        ),
        pytest.param(
            """(float[2,2] x, float[2,2] u) => (float[2,2] y) <int64[1,2] i = {0, 0}>
            { y = ScatterElements<axis = 0>(x, i, u) }""",
            id="fewer-indices-than-elements",
        ),
        pytest.param(
            """(float[2,3] x, float[1,2,3] u) => (float[2,3] y) <int64[1,0] i = {}>
            { t = ScatterND(x, i, u) y = Relu(t) }""",
            id="an-index-of-depth-0-writes-everything",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateNoopScatter(), text)
