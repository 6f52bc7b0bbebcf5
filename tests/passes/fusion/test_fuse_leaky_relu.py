import numpy as np
import pytest

HEAD = "(float[N] x) => (float[?] y)"


@pytest.mark.parametrize("maximum", ["Max(x, t)", "Max(t, x)"])
@pytest.mark.parametrize("factor", [0.1, 0.5, 0.999])
def test_fires(maximum, factor, rewrites):
    special = [np.nan, np.inf, -np.inf, -0.0, 0, 1e-40, -1e-40, -1, 1, 3e38, -3e38]
    rewrites(
        f"{HEAD} <float c = {{{factor}}}> {{ t = Mul(x, c) y = {maximum} }}",
        f"{HEAD} {{ y = LeakyRelu<alpha = {factor}>(x) }}",
        feeds=[{"x": np.tile(np.float32(special), 4)}],
    )


@pytest.mark.parametrize(
    ("body", "factor"),
    [
        pytest.param("t = Mul(x, c) y = Max(x, t)", 0, id="zero"),
        pytest.param("t = Mul(x, c) y = Max(x, t)", -0.5, id="negative"),
        pytest.param("t = Mul(x, c) y = Max(x, t)", 1.5, id="above-one"),
        pytest.param("t = Mul(x, c) y = Min(x, t)", 0.5, id="minimum"),
        pytest.param("t = Mul(x, c) u = Max(x, t) y = Add(t, u)", 0.5, id="read"),
        pytest.param("t = Mul(x, c) y = Max(x, t, c)", 0.5, id="three"),
    ],
)
def test_leaves_alone(body, factor, leaves_alone):
    leaves_alone(f"{HEAD} <float c = {{{factor}}}> {{ {body} }}")


def test_leaves_types_without_a_kernel_alone(leaves_alone):
    text = f"{HEAD} <float c = {{0.5}}> {{ t = Mul(x, c) y = Max(x, t) }}"
    leaves_alone(text.replace("float", "double"))
