from onnx_passes import testing
from onnx_passes.passes.lowering.lower_conv import LowerConv
from tests.tables import each_of, each_row, pass_cases


def model(attributes="", x="2,4,7,8", w="6,4,3,2", opset=13, dtype="float", bias=True):
    rank = x.count(",") - 1
    y = ",".join(["N", "M", *"HWDE"[:rank]])
    b = f", {dtype}[{w.split(',')[0]}] b" if bias else ""
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g
      ({dtype}[{x}] x, {dtype}[{w}] w{b}) => ({dtype}[{y}] y) {{
      y = Conv{attributes}(x, w{", b" if bias else ""}) }}"""


@each_of("opset", 9, 11, 13, 20)
@each_of("bias", True, False)
def test_fires(opset, bias, lowers):
    lowers(model("<pads = [1, 0, 1, 2]>", opset=opset, bias=bias))


@each_of(
    "attributes, shapes",
    ("", {}),
    ("", {"x": "N,4,7,8"}),
    ("<strides = [2, 3]>", {}),
    ("<dilations = [2, 3]>", {}),
    ("<strides = [2, 2], dilations = [2, 1], pads = [0, 3, 1, 0]>", {}),
    ('<auto_pad = "SAME_UPPER", strides = [2, 2]>', {}),
    ('<auto_pad = "SAME_LOWER", strides = [2, 2]>', {}),
    ('<auto_pad = "VALID">', {}),
    ("<group = 2>", {"w": "6,2,3,2"}),
    ("<group = 4, pads = [1, 1, 1, 1]>", {"w": "4,1,3,3"}),
    ("<group = 4>", {"w": "8,1,3,3"}),
    ("", {"w": "6,4,1,1"}),
    ("<strides = [2, 1]>", {"w": "6,4,1,1"}),
    ("", {"w": "6,4,1,3"}),
    ("<pads = [1, 1]>", {"x": "2,3,9", "w": "5,3,4"}),
    ("<group = 3>", {"x": "2,3,4,5,6", "w": "6,1,2,2,2"}),
)
def test_fires_on_forms(attributes, shapes, lowers):
    lowers(model(attributes, **shapes))


@each_of("dtype", "double", "float16")
def test_fires_on_types(dtype, lowers):
    lowers(model(dtype=dtype))


test_cases = pass_cases("""
dynamic: =model(x='2,4,H,8')
dynamic-weights: =model(w='M,4,3,2')
empty: =model(x='2,4,1,1', bias=False)
opset-8: =model(opset=8)
same-with-gaps: =model('<auto_pad = "SAME_UPPER", strides = [2, 3]>')
""")


@each_row("""call
- Conv(x, w)
- Conv(x, w, b)
- Conv<pads = [1, 2, 0, 1], strides = [2, 1], dilations = [1, 2]>(x, w, b)
- Conv<group = 2, auto_pad = 'SAME_UPPER'>(x, v, b)
""")
def test_to_im2col(call):
    model = testing.parse(
        f"""(float[N,4,6,7] x, float[4,4,3,2] w, float[4,2,3,2] v, float[4] b) =>
        (float[N,4,C,D] y) {{ y = {call} }}""".replace("'", '"')
    )
    before, pass_ = testing.Snapshot(model), LowerConv(to="im2col")
    assert pass_(model).modified
    testing.assert_verified(pass_, before, model)
    kinds = {node.op_type for node in model.graph}
    assert {"Im2Col", "MatMul", "Transpose"} <= kinds
    assert "Conv" not in kinds
    for node in (n for n in model.graph if n.op_type == "Im2Col"):
        # What finn-plus matches.
        assert list(node.attributes) == ["dilations", "kernel_shape", "strides"]
        assert node.attributes["kernel_shape"].as_ints() == (3, 2)
