from onnx_passes.passes.lowering.lower_global_max_pool import LowerGlobalMaxPool
from tests.tables import each_of

PASS = LowerGlobalMaxPool(assume_no_nan=True)


@each_of("opset", 7, 13, 18, 20)
@each_of("shape", "2,3,4", "N,3,4,5", "N,C,H,W")
def test_fires(shape, opset, lowers):
    ones = ",".join([*shape.split(",")[:2], *["1"] * (shape.count(",") - 1)])
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[{shape}] x)
    => (float[{ones}] y) {{ y = GlobalMaxPool(x) }}"""
    assert lowers(PASS, text) == ["ReduceMax"]


def test_half_precision_is_reduced_in_single_precision(lowers):
    text = "(float16[1,2,99,9] x) => (float16[1,2,1,1] y) { y = GlobalMaxPool(x) }"
    assert lowers(PASS, text) == ["Cast", "ReduceMax", "Cast"]


@each_of("shape", "2,3", "2,3,0")
def test_leaves_alone(shape, leaves_alone):
    ones = "2,3" if shape == "2,3" else "2,3,1"
    text = f"(float[{shape}] x) => (float[{ones}] y) {{ y = GlobalMaxPool(x) }}"
    leaves_alone(PASS, text)


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone(PASS, "GlobalMaxPool(x)")


def test_leaves_floats_alone_unless_none_is_nan(leaves_alone):
    # Of nothing but NaN, ONNX Runtime's kernel takes the lowest number, ReduceMax a NaN.
    leaves_alone("(float[2,3,4] x) => (float[2,3,1] y) { y = GlobalMaxPool(x) }")
