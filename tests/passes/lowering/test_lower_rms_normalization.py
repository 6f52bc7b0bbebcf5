import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.passes.lowering.lower_rms_normalization import LowerRMSNormalization
from tests.tables import each_of


def model(call, shape="2,3,4", dtype="float", weights="float[4] s"):
    return f"""<ir_version: 10, opset_import: ["" : 23]> g
      ({dtype}[{shape}] x, {weights.replace("float", dtype)})
      => ({dtype}[{shape}] y) {{ y = {call} }}"""


@each_of("dtype", "float", "double", "float16")
@each_of(
    "attributes, weights",
    ("", "4"),
    ("<epsilon = 0.1>", "4"),
    ("<axis = 1>", "3,4"),
    ("<axis = -2>", "3,1"),
)
def test_fires(attributes, weights, dtype, lowers):
    call = f"RMSNormalization{attributes}(x, s)"
    text = model(call, "N,3,4", dtype, f"float[{weights}] s")
    assert lowers(text).count("ReduceMean") == 1


def test_the_result_has_the_type_of_the_scale():
    made = testing.parse("""<ir_version: 10, opset_import: ["" : 23]> g (float16[2,4] x,
        float[4] s) => (float[2,4] y) { y = RMSNormalization(x, s) }""")
    LowerRMSNormalization()(made)
    casts = [n for n in made.graph if n.op_type == "Cast"]
    assert [n.attributes["to"].as_int() for n in casts] == [ir.DataType.FLOAT]
