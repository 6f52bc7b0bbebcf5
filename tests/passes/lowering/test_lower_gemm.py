from tests.tables import each_of, pass_cases


def model(call, a="3,4", b="4,5", c="5", opset=13, dtype="float"):
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g
      ({dtype}[{a}] a, {dtype}[{b}] b, {dtype}[{c}] c) => ({dtype}[3,5] y) {{ y = {call} }}"""


@each_of(
    "call, shapes, expected",
    ("Gemm(a, b, c)", {}, ["MatMul", "Add"]),
    ("Gemm(a, b)", {}, ["MatMul"]),
    ("Gemm(a, b, c)", {"c": "3,1"}, ["MatMul", "Add"]),
    ("Gemm<transA = 1>(a, b, c)", {"a": "4,3"}, ["Transpose", "MatMul", "Add"]),
    ("Gemm<transB = 1>(a, b, c)", {"b": "5,4"}, ["Transpose", "MatMul", "Add"]),
    ("Gemm<alpha = 0.5>(a, b, c)", {}, ["MatMul", "Mul", "Add"]),
    ("Gemm<beta = 2.0>(a, b, c)", {}, ["MatMul", "Mul", "Add"]),
    ("Gemm<beta = 0.0>(a, b, c)", {}, ["MatMul"]),
)
def test_fires(call, shapes, expected, lowers):
    assert lowers(model(call, **shapes)) == expected


@each_of("opset, dtype", (7, "float"), (13, "double"), (13, "int64"))
def test_fires_on_types_and_opsets(opset, dtype, lowers):
    lowers(model("Gemm(a, b, c)", opset=opset, dtype=dtype))


test_cases = pass_cases("""
half-an-integer: =model('Gemm<alpha = 0.5>(a, b, c)', dtype='int64')
opset-6: =model('Gemm<broadcast = 1>(a, b, c)', opset=6)
""")


def test_dimensions_stay_dynamic(lowers):
    text = "(float[N,4] a, float[4,M] b) => (float[N,M] y) { y = Gemm(a, b) }"
    assert lowers(text) == ["MatMul"]
