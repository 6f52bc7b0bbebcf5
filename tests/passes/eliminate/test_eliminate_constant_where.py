import pytest

from onnx_passes.passes.eliminate.eliminate_constant_where import EliminateConstantWhere


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """(float[2] x, float[2] z) => (float[2] y) <bool t = {1}>
            { a = Where(t, x, z) y = Exp(a) }""",
            """(float[2] x, float[2] z) => (float[2] y) { y = Exp(x) }""",
            id="always",
        ),
        pytest.param(
            """(float[2] x, float[2] z) => (float[2] y) <bool[2] t = {0, 0}>
            { a = Where(t, x, z) y = Exp(a) }""",
            """(float[2] x, float[2] z) => (float[2] y) { y = Exp(z) }""",
            id="never",
        ),
        pytest.param(
            """(float[2] x, float[2] z, bool[2] c) => (float[2] y)
            { a = Where(c, x, x) y = Exp(a) }""",
            """(float[2] x, float[2] z, bool[2] c) => (float[2] y) { y = Exp(x) }""",
            id="the same",
        ),
    ],
)
def test_fires(before, after, rewrites):
    rewrites(EliminateConstantWhere(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """(float[2] x, float[2] z) => (float[2] y) <bool[2] t = {0, 1}>
            { y = Where(t, x, z) }""",
            id="mixed",
        ),
        pytest.param(
            """(float x, float[2] z) => (float[2] y) <bool t = {1}>
            { y = Where(t, x, z) }""",
            id="broadcast by the other",
        ),
        pytest.param(
            """(float x, float z) => (float[2] y) <bool[2] t = {1, 1}>
            { y = Where(t, x, z) }""",
            id="broadcast by the condition",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(EliminateConstantWhere(), text)
