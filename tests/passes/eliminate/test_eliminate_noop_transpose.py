import pytest

from onnx_passes.passes.eliminate.eliminate_noop_transpose import EliminateNoopTranspose


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2,3] x) => (float[2,3] y)
            { t = Transpose<perm = [0, 1]>(x) y = Exp(t) }""",
            """(float[2,3] x) => (float[2,3] y) { y = Exp(x) }""",
            id="identity",
        ),
        pytest.param(
            """(float[1,1,N] x) => (float[1,1,N] y)
            { t = Transpose<perm = [1, 0, 2]>(x) y = Exp(t) }""",
            """(float[1,1,N] x) => (float[1,1,N] y) { y = Exp(x) }""",
            id="ones",
        ),
        pytest.param(
            """(float[N] x) => (float[N] y) { t = Transpose(x) y = Exp(t) }""",
            """(float[N] x) => (float[N] y) { y = Exp(x) }""",
            id="vector",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateNoopTranspose(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2,2] x) => (float[2,2] y) { y = Transpose(x) }""",
            id="moves",
        ),
        pytest.param(
            """(float[1,2] x) => (float[2,1] y) { y = Transpose<perm = [1, 0]>(x) }""",
            id="moves a one",
        ),
        pytest.param(
            """(float[N,N] x) => (float[N,N] y) { y = Transpose<perm = [1, 0]>(x) }""",
            id="dynamic",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateNoopTranspose(), text)
