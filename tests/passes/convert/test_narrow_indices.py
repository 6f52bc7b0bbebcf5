import onnx_ir as ir
import pytest

from tests.tables import pass_cases

GATHER = "(float[9] x) => (float[3] y) <int64[3] i = {0, 2, -1}> { y = Gather(x, i) }"


def dtypes(model, operator):
    node = next(node for node in model.graph if node.op_type == operator)
    return [v.dtype.name for v in node.inputs if v is not None][1:]


def test_constant_indices(rewrites):
    after = "(float[9] x) => (float[3] y) <int32[3] i = {0, 2, -1}> { y = Gather(x, i) }"
    rewrites(GATHER, after)


def test_all_operands_of_a_slice(rewrites):
    model = rewrites("""(float[9,4] x) => (float[4,4] y)
        <int64[1] s = {1}, int64[1] e = {9223372036854775807}, int64[1] a = {0},
         int64[1] p = {2}>
        { y = Slice(x, s, e, a, p) }""")
    assert dtypes(model, "Slice") == ["INT32"] * 4


@pytest.mark.parametrize("operator", ["GatherElements", "ScatterElements"])
def test_elements(rewrites, operator):
    more = ", x" if operator == "ScatterElements" else ""
    model = rewrites(f"""(float[3] x) => (float[3] y) <int64[3] i = {{0, 2, -1}}>
        {{ y = {operator}(x, i{more}) }}""")
    assert dtypes(model, operator)[0] == "INT32"


@pytest.mark.parametrize(("source", "casts"), [("int32", 0), ("uint8", 1), ("int16", 1)])
def test_a_cast_of_a_narrower_type(rewrites, source, casts):
    text = f"""(float[1000] x, {source}[3] n) => (float[3] y, int64[3] i)
        {{ i = Cast <to = 7> (n) y = Gather(x, i) }}"""
    model = rewrites(text)
    assert dtypes(model, "Gather") == ["INT32"]
    assert [node.op_type for node in model.graph].count("Cast") == 1 + casts


test_cases = pass_cases("""
(float[9] x, int64[3] i) => (float[3] y) { y = Gather(x, i) }
(float[9] x, int64[3] i = {0, 1, 2}) => (float[3] y) { y = Gather(x, i) }
(float[N] x) => (float[M] y) <int64[1] s = {1}, int64[1] e = {9223372036854775807}> { y =
  Slice(x, s, e) }
(float[9] x, int64[1] s) => (float[M] y) <int64[1] e = {3}> { y = Slice(x, s, e) }
(float[9] x, uint32[3] n) => (float[3] y) { i = Cast <to = 7> (n) y = Gather(x, i) }
(float[3,3] x) => (float[3] y) <int64[1,1] i = {1}> { t = GatherND(x, i) s = Constant
  <value_ints = [3]> () y = Reshape(t, s) }
(float[9] x) => (float[9] y) { y = Exp(x) }
(float[9,N] x) => (int64 y) <int64 i = {1}> { s = Shape(x) y = Gather(s, i) }
""")


def test_a_constant_that_others_read_stays_for_them(rewrites):
    model = rewrites("""(float[6] x) => (float[2] y, float[3,2] z) <int64[2] i = {3, 2}>
        { y = Gather(x, i) z = Reshape(x, i) }""")
    assert {v.dtype for v in model.graph.initializers.values()} == {
        ir.DataType.INT32,
        ir.DataType.INT64,
    }
