import numpy as np

from tests.tables import each_of, each_row


@each_row("""call
- q.Quant<signed = 1, narrow = 1, rounding_mode = "ROUND">(w, s, z, b)
- q.BipolarQuant(w, s)
""")
def test_integers_and_a_scale(call, rewrites, text):
    model = rewrites(
        text(f"""(float[N,2] x) => (float[N,2] y)
            <float[2,2] w = {{0.3, -0.7, 5, 0.01}}, float s = {{0.3}}, float z = {{0}},
            float b = {{3}}> {{ q1 = {call} y = MatMul(x, q1) }}""")
    )
    product = next(node for node in model.graph if node.op_type == "Mul")
    levels = product.inputs[0].producer().attributes["value"].as_tensor().numpy()
    assert np.array_equal(levels, np.rint(levels))
    assert not np.signbit(levels[levels == 0]).any()


@each_of("call", "q.BipolarQuant(x, s)", "q.BipolarQuant(w, u)", "q.BipolarQuant(w, n)")
def test_leaves_alone(call, leaves_alone, text):
    leaves_alone(
        text(
            f"""(float[2] x, float u) => (float[2] y)
            <float[2] w = {{1, 2}}, float s = {{0.5}}, float n = {{-0.5}}> {{ y = {call} }}"""
        )
    )
