from tests.tables import each_of


def model(shape, dtype="float"):
    return f"""<ir_version: 10, opset_import: ["" : 21]> g
      ({dtype}[{shape}] x, {dtype}[6] s, {dtype}[6] b) => ({dtype}[{shape}] y) {{
      y = GroupNormalization<num_groups = 3, epsilon = 0.01>(x, s, b) }}"""


@each_of("dtype", "float", "float16")
@each_of("shape", "2,6", "2,6,4", "N,6,4,5", "N,6,H,W")
def test_fires(shape, dtype, lowers):
    lowers(model(shape, dtype=dtype))


def test_leaves_alone_what_is_empty(leaves_alone):
    leaves_alone(model("2,6,0"))


def test_doubles_are_normalised_in_double_precision_alone(lowers, leaves_alone):
    # Of [-1, -1.19] in a row, ONNX Runtime finds another variance in single precision.
    leaves_alone(model("2,6,4", dtype="double"))
    wide = model("2,6,4", dtype="double").replace("0.01", "0.01, stash_type = 11")
    assert "Cast" not in lowers(wide)
