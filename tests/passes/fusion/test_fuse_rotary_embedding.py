import onnx_ir as ir

from tests.tables import each_row, inferred, pass_cases

SLICES = "l = Slice(x, zero, two, last) h = Slice(x, two, end, last) n = Neg(h) "
SPLIT = "l, h = Split<axis = -1, num_outputs = 2>(x) n = Neg(h) "
TABLES = """a = Concat<axis = -1>(t, t) c0 = Cos(a) s0 = Sin(a)
  cos = Unsqueeze(c0, outer) sin = Unsqueeze(s0, outer) """
TURNED = "r = Concat<axis = -1>(n, l) "
SUM = "p = Mul(x, cos) q = Mul(r, sin) y = Add(p, q)"
NUMBERS = {
    "zero": "int64[1] zero = {0}",
    "two": "int64[1] two = {2}",
    "end": "int64[1] end = {9223372036854775807}",
    "last": "int64[1] last = {3}",
    "minus": "int64[1] minus = {-1}",
    "outer": "int64[2] outer = {0, 1}",
    "one": "int64[1] one = {1}",
}


def model(body, *, x="B,3,S,4", t="S,2", opset=23, numbers=NUMBERS):
    words = {*body.replace("(", " ").replace(")", " ").replace(",", " ").split()}
    kept = ", ".join(text for name, text in numbers.items() if name in words)
    return inferred(f"""<ir_version: 10, opset_import: ["" : {opset}]> g
      (float[{x}] x, float[{t}] t) => (float[{x}] y) <{kept}> {{ {body} }}""")


def kinds(made):
    """The operators of a model whose tables are there, without constants."""
    return [node.op_type for node in made.graph if node.op_type != "Constant"]


PREPARED = ["Concat", "Cos", "Sin", "Unsqueeze", "Unsqueeze"]


@each_row("""body
llama: =SLICES + TURNED + SUM
split: =SPLIT + TURNED + SUM
tables-first: =SLICES + TURNED + 'p = Mul(cos, x) q = Mul(sin, r) y = Add(p, q)'
turned-first: =SLICES + TURNED + 'p = Mul(cos, x) q = Mul(r, sin) y = Add(q, p)'
""")
def test_fires(body, rewrites):
    after = rewrites(ir.to_onnx_text(model(TABLES + body)))
    table = ["Slice", "Squeeze", "Shape", "Concat", "Expand"]
    assert kinds(after) == [*PREPARED, *table, *table, "RotaryEmbedding"]


def test_fires_on_a_batch_of_known_size(rewrites):
    before = model(TABLES + SLICES + TURNED + SUM, x="2,3,S,4")
    after = rewrites(ir.to_onnx_text(before))
    table = ["Slice", "Squeeze", "Expand"]
    assert kinds(after) == [*PREPARED, *table, *table, "RotaryEmbedding"]


def test_fires_on_tables_by_batch(rewrites):
    before = model(TABLES.replace("outer", "one") + SLICES + TURNED + SUM, t="B,S,2")
    after = rewrites(ir.to_onnx_text(before))
    table = ["Slice", "Squeeze"]
    assert kinds(after) == [*PREPARED, *table, *table, "RotaryEmbedding"]


def test_fires_on_constant_tables_of_two_dimensions(rewrites):
    numbers = {
        **NUMBERS,
        "cos": "float[2,4] cos = {1, 2, 1, 2, 3, 4, 3, 4}",
        "sin": "float[2,4] sin = {4, 3, 4, 3, 2, 1, 2, 1}",
    }
    before = model(SLICES + TURNED + SUM, x="1,3,2,4", numbers=numbers)
    after = rewrites(ir.to_onnx_text(before))
    table = ["Slice", "Unsqueeze"]
    assert kinds(after) == [*table, *table, "RotaryEmbedding"]


PLAIN = TABLES + SLICES + TURNED + SUM
ROWS = f"{{{', '.join(['1, 2, 1, 2'] * 3)}}}"


def constant(cos, sin):
    known = NUMBERS | {"cos": f"float{cos}", "sin": f"float{sin}"}
    return model(SLICES + TURNED + SUM, x="1,3,1,4", numbers=known)


test_cases = pass_cases("""
before-opset-23: =model(PLAIN, opset=22)
halves-that-differ: =model(PLAIN.replace('Concat<axis = -1>(t, t)', 'Concat<axis = -1>(t,
  u)').replace('a = ', 'u = Neg(t) a = '))
halves-in-order: =model(PLAIN.replace('(n, l)', '(l, n)'))
no-sign: =model(PLAIN.replace('n = Neg(h)', 'n = Abs(h)'))
one-half-twice: =model(PLAIN.replace('Slice(x, two, end', 'Slice(x, zero, two'))
second-reader: =model(PLAIN.replace('y = Add(p, q)', 'w = Add(p, q) y = Add(w, r)'))
one-position-for-all: =model(PLAIN, t='1,2')
another-factor: =model(PLAIN.replace('p = Mul(x, cos)', 'z = Exp(x) p = Mul(z, cos)'))
constants-by-head: =constant(f'[3,1,4] cos = {ROWS}', f'[3,1,4] sin = {ROWS}')
constants-with-other-halves: =constant('[1,4] cos = {1, 2, 1, 3}', '[1,4] sin = {4, 3, 4, 3}')
""")
