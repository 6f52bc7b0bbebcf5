"""Our own operators as QONNX's; the values are tested beside the way back."""

import numpy as np

from onnx_passes import testing
from onnx_passes.ops.bodies import QONNX
from onnx_passes.passes.quantised.export_qonnx import ExportQonnx
from onnx_passes.passes.quantised.import_qonnx import ImportQonnx
from tests.tables import each_of, each_row, inferred, pass_cases, qonnx

CONSTANTS = """<float s = {0.5}, float z = {0}, float b = {3}, float half = {0.5},
float one = {1}, float two = {2}, float minus = {-1}, float[2] t = {0.5, 1.5},
float[3,1,2] c = {0, 1, -1, 2, 0.5, 0.75}, float[1,3,2] l = {0, 1, -1, 2, 0.5, 0.75},
float[1] u = {0.25}, float[2] w = {1, 2}>"""


def graph(body, shape="2,3,4"):
    return f"(float[{shape}] x) => (float[{shape}] y) {CONSTANTS} {{ {body} }}"


def exported(body, rewrites, text, shape="2,3,4"):
    model = rewrites(qonnx(graph(body, shape)))
    (node,) = (n for n in model.graph if n.op_type != "Constant")
    assert node.domain == QONNX
    return node


def test_quantisers_keep_their_attributes(rewrites, text):
    body = 'y = o.Quant<signed = 0, narrow = 0, rounding_mode = "FLOOR">(x, s, z, b)'
    told = {a.name: a.value for a in exported(body, rewrites, text).attributes.values()}
    assert told == {"signed": 0, "narrow": 0, "rounding_mode": "FLOOR"}


@each_row("""body | shape | layout | dtype | rows
- y = o.MultiThreshold(x, t, one) | 2,3 | NC | UINT2 | =1
- y = o.MultiThreshold(x, c, one) | 2,3,4 | NCW | UINT2 | =3
- y = o.MultiThreshold(x, l, one) | 2,4,3 | NWC | UINT2 | =3
- y = o.MultiThreshold(x, l, two) | 2,5,4,3 | NHWC | UINT3 | =3
- m = o.MultiThreshold(x, t, one) y = Add(m, minus) | 2,3 | NC | TERNARY | =1
- m = o.MultiThreshold(x, u, two) y = Add(m, minus) | 2,3 | NC | BIPOLAR | =1
- y = o.MultiThreshold(x, u, one) | 2,3,4,5 | NCHW | BINARY | =1
""")
def test_thresholds_have_layout_and_datatype(body, shape, layout, dtype, rows, rewrites, text):
    node = exported(body, rewrites, text, shape)
    assert node.attributes["data_layout"].value == layout
    assert node.attributes["out_dtype"].value == dtype
    table = node.inputs[1].producer().attributes["value"].as_tensor()
    assert table.shape[0] == rows


test_cases = pass_cases("""
=qonnx(graph('y = o.MultiThreshold(x, t, w)', '2,3'))
=qonnx(graph('y = o.MultiThreshold(x, t, half)', '2,3'))
=qonnx(graph('y = o.MultiThreshold(x, t, minus)', '2,3'))
=qonnx(graph('y = o.MultiThreshold(x, c, one)', '5,2,3,4'))
=qonnx(graph('y = o.MultiThreshold(x, t, one)', '2,3,4,5,6'))
=qonnx(graph('y = o.MultiThreshold(x, t, one)', '2'))
a sum that is no integer stays: =qonnx(graph('m = o.MultiThreshold(x, t, one) y = Add(m,
  half)')) | >~ MultiThreshold Add
""")


def test_the_way_back_leads_to_the_same(text):
    model = inferred(qonnx(graph("y = o.MultiThreshold(x, c, two)")))
    before = testing.Snapshot(model)
    for step in (ExportQonnx(), ImportQonnx()):
        assert step(model).modified
    testing.assert_verified(ExportQonnx(), before, model)
    node = next(n for n in model.graph if n.op_type == "MultiThreshold")
    table = node.inputs[1].producer().attributes["value"].as_tensor().numpy()
    assert np.array_equal(table.reshape(3, 2), [[0, 1], [-1, 2], [0.5, 0.75]])


@each_of("layout", "NHWC", "NCHW")
def test_one_row_of_thresholds_has_the_layout_of_pooling_behind_it(layout, rewrites, text):
    pool = f"""q.QuantAvgPool2d<kernel = 2, stride = 2, ibits = 2, obits = 4, signed = 0,
        data_layout = "{layout}">(m)"""
    body = f"m = o.MultiThreshold(x, t, one) y = {pool}"
    source = f"(float[2,4,4,4] x) => (float[A,B,C,D] y) {CONSTANTS} {{ {body} }}"
    (node,) = (n for n in rewrites(qonnx(source)).graph if n.op_type == "MultiThreshold")
    assert node.attributes.get_string("data_layout") == layout
