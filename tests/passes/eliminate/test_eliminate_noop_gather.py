import pytest

from onnx_passes.passes.eliminate.eliminate_noop_gather import EliminateNoopGather


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[2] i = {0, 1}>
            { t = Gather(x, i) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="all",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[3] i = {0, -2, 2}>
            { t = Gather<axis = -1>(x, i) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="from the end",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateNoopGather(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2] x) => (float[1] y) <int64[1] i = {0}> { y = Gather(x, i) }""",
            id="some",
        ),
        pytest.param(
            """(float[2,3] x) => (float[2,3] y) <int64[2] i = {1, 0}>
            { y = Gather(x, i) }""",
            id="another order",
        ),
        pytest.param(
            """(float[N] x) => (float[2] y) <int64[2] i = {0, 1}> { y = Gather(x, i) }""",
            id="dynamic",
        ),
        pytest.param(
            """(float[1] x) => (float[1,1] y) <int64[1,1] i = {0}> { y = Gather(x, i) }""",
            id="another rank",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateNoopGather(), text)
