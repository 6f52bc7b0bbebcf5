import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.ops import bodies
from onnx_passes.ops.bodies.attach import BodyCall, body_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, outputs_of

TEXT = """<ir_version: 7, opset_import: ["" : 13, "onnx.brevitas" : 1]>
g (float[N, 3] x) => (float[N, 3] y) <float s = {0.5}, float z = {0}, float b = {3}> {
    p = onnx.brevitas.Quant <signed = 1, narrow = 0, rounding_mode = "FLOOR"> (x, s, z, b)
    q = onnx.brevitas.Quant <signed = 1, narrow = 0, rounding_mode = "CEIL"> (x, s, z, b)
    r = onnx.brevitas.Quant <signed = 1, narrow = 0, rounding_mode = "CEIL"> (q, s, z, b)
    y = Add(p, r)
}"""
X = np.float32([[0.3, -0.3, 9]])


def model(text: str = TEXT) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(text))


def test_one_function_for_equal_attributes():
    proto = onnx.parser.parse_model(TEXT)
    assert bodies.attach_bodies(proto)
    assert [f.name for f in proto.functions] == ["Quant", "Quant"]
    p, q, r, _ = proto.graph.node
    assert q.overload == r.overload != p.overload
    assert proto.ir_version == 10
    onnx.checker.check_model(proto, full_check=True)
    assert not bodies.attach_bodies(proto), "a second time adds nothing"


def test_a_function_of_the_model_counts():
    text = (
        TEXT
        + """
    <domain: "onnx.brevitas", opset_import: ["" : 13]>
    Quant (x, s, z, b) => (y) { y = Neg(x) }"""
    )
    with OnnxRuntimeEngine().prepare(model(text)) as session:
        np.testing.assert_array_equal(session.run({"x": X})["y"], -X + X)


def test_in_subgraphs_and_in_functions_of_the_model():
    text = """<ir_version: 8, opset_import: ["" : 13, "onnx.brevitas" : 1, "own" : 1]>
    g (float[N] x, bool c) => (float[N] y) <float s = {2}> {
        y = If (c) <
            then_branch = t () => (float[N] a) { a = own.F(x) },
            else_branch = e () => (float[N] d) { d = onnx.brevitas.BipolarQuant(x, s) }>
    }
    <domain: "own", opset_import: ["" : 13, "onnx.brevitas" : 1]>
    F (x) => (y) { o = Constant<value_float = 1.0>() y = onnx.brevitas.BipolarQuant(x, o) }"""
    with OnnxRuntimeEngine().prepare(model(text)) as session:
        for condition, size in ((True, 1), (False, 2)):
            found = session.run({"x": np.float32([-3, 0]), "c": np.array(condition)})["y"]
            np.testing.assert_array_equal(found, np.float32([-size, size]))


@each_of("mode", "ROUND", "HALF_UP", "half_down", "UP", "DOWN", "ROUND_TO_ZERO")
def test_rounding_before_opset_11(mode):
    x = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1.2, -1.8])
    text = """<ir_version: 5, opset_import: ["" : %d, "onnx_passes.ops" : 1]>
    g (float[8] x) => (float[8] y) { y = onnx_passes.ops.Round<rounding_mode = "%s">(x) }"""
    found = []
    for opset in (10, 13):
        with OnnxRuntimeEngine().prepare(model(text % (opset, mode))) as session:
            found.append(session.run({"x": x})["y"])
    np.testing.assert_array_equal(*found)


def test_unknown_mode_has_no_body():
    call = BodyCall(bodies.QONNX, "Quant", 4, {"rounding_mode": b"SIDEWAYS"}, 13)
    assert body_of(call) is None


@each_of("rank", 2, 3, 4, 5)
def test_thresholds_of_a_rank_that_is_not_declared(rank):
    axis = {3: 2}.get(rank, 1)
    shape = [3 if i == axis else 2 for i in range(rank)]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 5
    table = np.float32([[0, 1], [1, 3], [2, 9]])
    given = model(f"""<ir_version: 8, opset_import: ["" : 13, "{bodies.QONNX}" : 1]>
        g (float[] x, float[3,2] t) => (float[] y) {{
        y = {bodies.QONNX}.MultiThreshold(x, t) }}""")
    found = outputs_of(OnnxRuntimeEngine(), given, {"x": x, "t": table})["y"]
    moved = np.moveaxis(x, axis, -1)[..., None] >= table
    np.testing.assert_array_equal(found, np.moveaxis(moved.sum(-1), -1, axis))


def test_added_to_a_model_and_taken_out_again():
    given = model()
    plain = ir.to_proto(given).SerializeToString(deterministic=True)
    with bodies.bodies_attached(given):
        proto = ir.to_proto(given)
        onnx.checker.check_model(proto, full_check=True)
        assert len(proto.functions) == 2
    assert ir.to_proto(given).SerializeToString(deterministic=True) == plain


def test_the_added_functions_can_be_saved_and_run_alone():
    import onnxruntime

    given = copy_model(model())
    bodies.attach_to_model(given)
    data = ir.to_proto(given).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.float32([[0.5, -0.5, 3]]))
