import numpy as np

from onnx_passes.passes.streamline.factorize import common_factor
from tests.tables import each_of

GRAPH = "(float[N,2] x) => (float[N,2] y) <float[2,2] w = {{{}}}> {{ y = MatMul(x, w) }}"


def test_fires(rewrites):
    model = rewrites(GRAPH.format("0.75, -0.25, 0, 1.25"))
    product = next(n for n in model.graph if n.op_type == "Mul")
    levels = product.inputs[0].producer().attributes["value"].as_tensor().numpy()
    assert levels.tolist() == [[3, -1], [0, 5]]


@each_of("weights", "1, 2, 3, 4", "0, 0, 0, 0", "0.1, 0.2500001, 0.77, 0.123")
def test_leaves_alone(weights, leaves_alone):
    leaves_alone(GRAPH.format(weights))


def test_never_lossy():
    draw = np.random.default_rng(0)
    found = 0
    for _ in range(300):
        levels = draw.integers(-7, 8, 50).astype(np.float32)
        weights = levels * np.float32(draw.uniform(1e-3, 2))
        if draw.random() < 0.5:
            weights[draw.integers(50)] *= np.float32(1 + 1e-6)
        split = common_factor(weights)
        if split is not None:
            found += 1
            assert np.array_equal(split[0] * split[1], weights)
    assert found > 100
