import numpy as np

from onnx_passes.ops.bodies import CUSTOM
from tests.tables import cases_in, each_of, each_row, qonnx

PARAMETERS = "<float s = {0.5}, float z = {0}, float b = {3}>"


@each_row("""call
- q.Quant<signed = 1, narrow = 0, rounding_mode = "floor">(x, s, z, b)
- q.IntQuant<rounding_mode = "HALF_UP">(x, s, z, b)
- q.Quant(x, s, z, b)
- onnx.brevitas.Quant<signed = 0, narrow = 1>(x, s, z, b)
""")
def test_quantisers_with_all_attributes(call, rewrites, text):
    model = rewrites(text(f"(float[N,3] x) => (float[N,3] y) {PARAMETERS} {{ y = {call} }}"))
    (node,) = model.graph
    assert (node.domain, node.op_type) == (CUSTOM, "Quant")
    assert {"signed", "narrow", "rounding_mode"} == node.attributes.keys()


@each_of(
    "shape, layout, axis",
    ("2,3", "", 1),
    ("2,4,3", "", 2),
    ("2,3,4", "NCW", 1),
    ("2,3,4,5", "", 1),
)
def test_thresholds_along_the_channels(shape, layout, axis, rewrites, text):
    attribute = f', data_layout = "{layout}"' if layout else ""
    model = rewrites(
        text(f"""(float[{shape}] x) => (float[{shape}] y)
            <float[3,2] t = {{0, 1, -1, 2, 0.5, 0.75}}> {{
            y = q.MultiThreshold<out_scale = 0.5, out_bias = -1.0{attribute}>(x, t) }}""")
    )
    node = next(n for n in model.graph if n.op_type == "MultiThreshold")
    assert node.domain == CUSTOM
    table = node.inputs[1].producer().attributes["value"].as_tensor().numpy()
    rank = shape.count(",") + 1
    assert table.shape == (*(3 if i == axis else 1 for i in range(rank)), 2)
    assert np.array_equal(table.reshape(3, 2), np.float32([[0, 1], [-1, 2], [0.5, 0.75]]))


GRAPH = "(float[N,3] x) => (float[N,3] y) <float[3,1] t = {0, 1, 2}, " + PARAMETERS[1:]


test_cases = cases_in(lambda call: qonnx(f"{GRAPH} {{ computed = Add(t, t) y = {call} }}"))("""
q.Quant<rounding_mode = "SIDEWAYS">(x, s, z, b)
q.MultiThreshold<data_layout = "NCHW">(x, t)
q.MultiThreshold(x, computed)
q.BipolarQuant(x, s)
""")
