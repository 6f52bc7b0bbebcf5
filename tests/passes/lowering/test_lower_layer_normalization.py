from tests.tables import each_of, pass_cases


def model(call, shape="2,3,4", dtype="float", opset=20, weights="float[4] s, float[4] b"):
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g
      ({dtype}[{shape}] x, {weights.replace("float", dtype)})
      => ({dtype}[{shape}] y) {{ y = {call} }}"""


@each_of("opset", 17, 18, 21)
@each_of("dtype", "float", "double", "float16")
@each_of(
    "call", "LayerNormalization(x, s, b)", "LayerNormalization<axis = 2, epsilon = 0.1>(x, s)"
)
def test_fires(call, dtype, opset, lowers):
    kinds = lowers(model(call, dtype=dtype, opset=opset))
    assert kinds.count("ReduceMean") == 2
    assert ("Cast" in kinds) == (dtype == "float16")


@each_of("axis", 0, 1, -2)
def test_fires_over_several_axes_and_dynamic_ones(axis, lowers):
    rows = "2,3,4"[2 * (axis % 3) :]
    weights = f"float[{rows}] s, float[{rows}] b"
    shape = "2,3,4" if axis == 0 else "N,3,4"
    lowers(model(f"LayerNormalization<axis = {axis}>(x, s, b)", shape, weights=weights))


test_cases = pass_cases("""
leaves alone what shows its mean: (float[2,4] x, float[4] s) => (float[2,4] y, float[2,1] m) {
  y, m = LayerNormalization(x, s) }
""")


def test_fires_where_nobody_reads_the_mean(lowers):
    text = """(float[2,4] x, float[4] s) => (float[2,4] y) {
    y, m, d = LayerNormalization(x, s) }"""
    lowers(text)
