from tests.passes.lowering.forms import WINDOWS
from tests.tables import each_of, each_row, pass_cases

PADDED = "<kernel_shape = [3, 2], pads = [1, 0, 1, 1]>"


def model(attributes, shape="2,3,7,8", opset=20, dtype="float"):
    y = ",".join(["N", "C", *"HWDE"[: shape.count(",") - 1]])
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({dtype}[{shape}] x)
      => ({dtype}[{y}] y) {{ y = AveragePool{attributes}(x) }}"""


@each_of("opset", 9, 10, 11, 19)
def test_fires(opset, lowers):
    assert lowers(model(PADDED, opset=opset)).count("Gather") == 2


@each_of(
    "attributes",
    *WINDOWS,
    "<kernel_shape = [3, 2], pads = [1, 1, 1, 1], count_include_pad = 1>",
    "<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], "
    "count_include_pad = 1, ceil_mode = 1>",
)
def test_fires_on_forms(attributes, lowers):
    lowers(model(attributes, "N,3,7,8"))


@each_row("""attributes | shape
- <kernel_shape = [3], pads = [1, 1]> | 2,3,5
- <kernel_shape = [2, 2, 2], strides = [1, 2, 1]> | 2,3,4,5,6
""")
def test_fires_on_ranks(attributes, shape, lowers):
    lowers(model(attributes, shape))


@each_of("dtype", "float16")
def test_fires_on_types(dtype, lowers):
    lowers(model(PADDED, dtype=dtype))


test_cases = pass_cases("""
dynamic: =model('<kernel_shape = [2, 2]>', '2,3,H,8')
windows-of-padding: =model('<kernel_shape = [2, 2], dilations = [8, 1], pads = [2, 0, 2, 0]>')
same-with-dilations: =model('<kernel_shape = [2, 2], dilations = [2, 1], auto_pad =
  "SAME_UPPER">')
same-with-gaps: =model('<kernel_shape = [1, 2], strides = [2, 2], auto_pad = "SAME_LOWER">')
""")
