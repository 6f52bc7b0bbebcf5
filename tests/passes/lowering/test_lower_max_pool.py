from onnx_passes.passes.lowering.lower_average_pool import LowerAveragePool
from onnx_passes.passes.lowering.lower_max_pool import LowerMaxPool
from tests.passes.lowering.forms import WINDOWS
from tests.tables import cases_in, each_of, each_row

AVERAGE = LowerAveragePool(to="im2col")
PASS = LowerMaxPool(assume_no_nan=True)
PADDED = "<kernel_shape = [3, 2], pads = [1, 0, 1, 1]>"


def model(attributes, shape="2,3,7,8", opset=20, dtype="float"):
    y = ",".join(["N", "C", *"HWDE"[: shape.count(",") - 1]])
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({dtype}[{shape}] x)
      => ({dtype}[{y}] y) {{ y = MaxPool{attributes}(x) }}"""


@each_of("opset", 9, 10, 12, 18, 20)
def test_fires(opset, lowers):
    assert lowers(PASS, model(PADDED, opset=opset)).count("Gather") == 2


@each_of("attributes", *WINDOWS)
def test_fires_on_forms(attributes, lowers):
    lowers(PASS, model(attributes, "N,3,7,8"))


@each_row("""attributes | shape
- <kernel_shape = [3], pads = [1, 1]> | 2,3,5
- <kernel_shape = [2, 2, 2], strides = [1, 2, 1]> | 2,3,4,5,6
""")
def test_fires_on_ranks(attributes, shape, lowers):
    lowers(PASS, model(attributes, shape))


@each_of("dtype", "double", "float16", "int8", "uint8")
def test_fires_on_types(dtype, lowers):
    lowers(PASS, model(PADDED, dtype=dtype))


test_cases = cases_in(make=lambda: PASS)("""
dynamic: =model('<kernel_shape = [2, 2]>', '2,3,H,8')
windows-of-padding: =model('<kernel_shape = [2, 2], dilations = [8, 1], pads = [2, 0, 2, 0]>')
same-with-dilations: =model('<kernel_shape = [2, 2], dilations = [2, 1], auto_pad =
  "SAME_UPPER">')
same-with-gaps: =model('<kernel_shape = [1, 2], strides = [2, 2], auto_pad = "SAME_LOWER">')
shows its indices: (float[1,1,4,4] x) => (float[1,1,3,3] y, int64[1,1,3,3] i) {
  y, i = MaxPool<kernel_shape = [2, 2]>(x) }
""")


def test_leaves_functions_alone(leaves_functions_alone):
    leaves_functions_alone(PASS, "MaxPool<kernel_shape = [2, 2]>(x)")


def test_leaves_floats_alone_unless_none_is_nan(leaves_alone):
    leaves_alone(model(PADDED))


@each_of("pass_", LowerMaxPool(to="im2col", assume_no_nan=True), AVERAGE)
def test_to_im2col(pass_, lowers):
    attributes = "<kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 1]>"
    text = model(attributes, "N,3,7,8")
    if pass_ is AVERAGE:
        text = text.replace("MaxPool", "AveragePool")
    kinds = lowers(pass_, text)
    assert "Im2Col" in kinds
    assert "Gather" not in kinds


def test_pipelines_for_the_seed_system_want_im2col_and_have_no_nan(lowers):
    pass_ = LowerMaxPool({"layouts": {}})
    assert "Im2Col" in lowers(pass_, model(PADDED))


def test_integers_are_never_nan(lowers):
    lowers(model(PADDED, dtype="uint8"))
