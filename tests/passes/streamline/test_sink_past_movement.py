import math

from onnx_passes import testing
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.streamline.sink_past_movement import SinkPastMovement
from tests.tables import cases_in, each_of, each_row, inferred

HEAD = """(float[2,3,4] x, float[2,3,4] u, float[2,3,4,4] i) => (float[A,B] y)
<float s = {0.3}, float n = {-0.3}, float z = {0}, float[3,1] c = {1, 2, 3},
int64[2] f = {6, 4}, int64[1] e = {1}, float[2,2] w = {1, 2, 3, 4},
float[3,1,1] r = {0.3, 1, 2}, float[2,1] v = {0.3, 3}, float[3,1] q = {1, -1, 2},
float[4] g = {1, 2, 3, 4}, float[1,1] o = {0.3}, float[1,1] h = {1}> """


def typed(body):
    rank = {"MaxPool": "A,B,C,D"}.get(body.split("y = ")[1].split("(")[0].split("<")[0], "A,B")
    model = testing.parse(HEAD.replace("float[A,B]", f"float[{rank}]") + "{ " + body + " }")
    model.graph.outputs[0].shape = None
    infer_shapes(model)
    return model


test_cases = cases_in(typed)("""
m = Mul(x, s) y = Reshape(m, f) | >~ Reshape Mul
m = Add(x, s) y = Flatten(m) | >~ Flatten Add
m = Mul(x, n) y = Unsqueeze(m, e) | >~ Unsqueeze Mul
m = Mul(i, s) y = MaxPool<kernel_shape = [2, 2]>(m) | >~ MaxPool Mul
m = Add(i, n) y = MaxPool<kernel_shape = [2, 2]>(m) | >~ MaxPool Add
m = Mul(x, s) y = Relu(m) | >~ Relu Mul
m = Mul(x, s) k = Mul(u, s) y = Concat<axis = 1>(m, k) | >~ Concat Mul
m = Mul(x, s) k = Mul(u, n) y = Concat<axis = 1>(m, k) | >~ Concat Mul
m = Mul(x, c) k = Mul(u, n) y = Concat<axis = -2>(m, k) | >~ Concat Mul
m = Add(x, s) k = Add(u, n) y = Concat<axis = 2>(m, k) | >~ Concat Add
m = Mul(w, s) y = Transpose(m) | >~ Transpose Mul
m = Mul(x, c) t = Flatten(m) y = Exp(t) | >~ Flatten Mul Exp
m = Add(i, r) y = MaxPool<kernel_shape = [2, 2]>(m) | >~ MaxPool Add
m = Mul(i, r) y = MaxPool<kernel_shape = [2, 2]>(m) | >~ MaxPool Mul
m = Mul(x, c) y = Relu(m) | >~ Relu Mul
m = Div(x, c) y = Relu(m) | >~ Relu Div
m = Div(x, n) y = Flatten(m) | >~ Flatten Div
m = Mul(w, v) y = Transpose(m) | >~ Transpose Mul
m = Mul(h, o) y = Transpose(m) | >~ Transpose Mul
m = Mul(x, o) t = Flatten(m) y = Exp(t) | >~ Flatten Mul Exp
m = Mul(g, s) k = Mul(g, s) y = Concat<axis = 0>(m, k) | >~ Concat Mul
m = Mul(x, c) t = Unsqueeze(m, e) y = Exp(t) | >~ Unsqueeze Mul Exp
m = Mul(x, z) y = Flatten(m)
m = Mul(x, q) y = Relu(m)
m = Mul(i, q) y = MaxPool<kernel_shape = [2, 2]>(m)
m = Add(i, g) y = MaxPool<kernel_shape = [2, 2]>(m)
m = Mul(x, c) k = Add(u, s) y = Concat<axis = 1>(m, k)
m = Mul(x, c) k = Mul(u, c) y = Concat<axis = 2>(m, k)
m = Mul(x, n) y = Relu(m)
m = Div(x, n) y = Relu(m)
m = Add(x, s) y = Relu(m)
m = Mul(i, n) y = MaxPool<kernel_shape = [2, 2]>(m)
m = Mul(x, s) k = Mul(u, z) y = Concat<axis = 1>(m, k)
m = Mul(x, s) y = Transpose(m)
""")


def test_past_transposes_where_asked():
    model = typed("m = Mul(x, s) y = Transpose(m)")
    assert SinkPastMovement(past_transposes=True)(model).modified
    assert [node.op_type for node in model.graph] == ["Transpose", "Mul"]


def test_an_array_is_transposed_alike():
    model = typed("m = Mul(x, c) y = Transpose<perm = [0, 2, 1]>(m)")
    before = testing.Snapshot(model)
    assert SinkPastMovement(past_transposes=True)(model).modified
    testing.assert_verified(SinkPastMovement(), before, model)
    factor = list(model.graph)[-1].inputs[1].producer().attributes["value"].as_tensor()
    assert factor.numpy().tolist() == [1, 2, 3]


MORE = """(float[2,4,6] x, float[1,2,4,4] i) => (float[A,B,C] y, float[D,E,F] z)
<float s = {0.3}, float n = {-0.3}, int64[2] p = {3, 1}, float[4] f = {1, 1, 2, 2},
int64[6] e = {0, 0, 1, 0, 0, 1}, float o = {1}, float[4,1] k = {1, 2, 3, 4},
int64[1] l = {-1}, int64[1] u = {-4}, int64[1] t = {-2}, int64[1] q = {1},
float least = {-inf}> """


def free(body):
    model = testing.parse(MORE + "{ " + body + " z = Identity(x) }")
    for output in model.graph.outputs:
        output.shape = None
    infer_shapes(model)
    return model


test_past_split_resize_and_pad = cases_in(free)("""
m = Mul(x, s) a, b = Split<axis = 1>(m, p) c = Exp(a) y = Concat<axis = 1>(c, b) | >~ Split Mul
  Mul Exp Concat Identity
m = Add(x, k) a, b = Split<axis = 1>(m, p) c = Exp(a) y = Concat<axis = 1>(c, b) | >~ Split Add
  Add Exp Concat Identity
m = Add(x, k) y = Slice(m, l, u, q, t) | >~ Slice Add Identity
m = Mul(x, k) y = Slice(m, u, l) | >~ Slice Mul Identity
m = Mul(i, n) y = Resize<mode = "nearest">(m, , f) | >~ Resize Mul Identity
m = Add(i, s) y = Resize(m, , f) | >~ Resize Add Identity
m = Mul(x, n) y = Pad(m, e) | >~ Pad Mul Identity
m = Add(x, n) y = Pad<mode = "edge">(m, e) | >~ Pad Add Identity
m = Mul(x, s) y = Pad(m, e, least) | >~ Pad Mul Identity
m = Add(x, n) y = Pad(m, e, least) | >~ Pad Add Identity
m = Mul(x, s) y = ReduceMax(m) | >~ ReduceMax Mul Identity
m = Add(x, n) y = ReduceMin(m) | >~ ReduceMin Add Identity
m = Add(x, n) y = Pad(m, e)
m = Mul(x, n) y = Pad(m, e, o)
m = Mul(x, n) y = Pad(m, e, least)
m = Mul(i, n) y = Resize<mode = "linear">(m, , f)
""")


@each_of(
    "shape, factor, view, behind",
    ([2, 40_000], [2, 1], [2, 200, 200], [2, 1, 1]),
    ([300, 3, 100], [3, 1], [1, 300, 3, 100], [3, 1]),
    ([2, 3, 200, 100], [3, 1, 1], [6, 20_000], [6, 1]),
)
def test_factors_pass_changes_of_shape_of_large_values(shape, factor, view, behind, applied):
    row = ", ".join(str(n + 2) for n in range(math.prod(factor)))
    model = testing.parse(f"""(float{shape} x) => (float{view} y) <float{factor} s = {{{row}}},
        int64[{len(view)}] v = {{{", ".join(map(str, view))}}}> {{ m = Mul(x, s)
        y = Reshape(m, v) }}""")
    assert applied(model)
    (product,) = (node for node in model.graph if node.op_type == "Mul")
    assert list(product.inputs[1].shape) == behind


SINGLE = """(float{shape} x) => (float[A] y) <{constant}, int64[1] t = {{0}},
int64[0] n = {{}}, int64 i = {{0}}, int64[1] f = {{-1}}>
{{ m = {operation} s = {moved} y = Exp(s) }}"""


@each_of("operation", "Mul(x, c)", "Add(x, c)", "Div(x, c)")
@each_of("constant", "float c = {0.3}", "float[1] c = {0.3}")
@each_row("""shape | moved
- [1,1] | Squeeze(m)
- [1] | Squeeze(m, t)
- [1,1] | Reshape(m, n)
- [1,1] | Reshape(m, f)
- [1,3] | ReduceMax<keepdims = 0>(m)
- [3] | ReduceMin<keepdims = 0>(m)
- [3] | Gather<axis = 0>(m, i)
- [1,3] | Unsqueeze(m, t)
- [1] | Flatten<axis = 0>(m)
""")
def test_a_single_number_does_not_raise_the_rank(shape, moved, constant, operation, applied):
    body = SINGLE.format(shape=shape, moved=moved, constant=constant, operation=operation)
    model = testing.parse(body)
    model.graph.outputs[0].shape = None
    infer_shapes(model)
    assert applied(model)


WINDOWS = """(float[N,4,3] x) => (float[N,3,2] y) <float s = {0.3}, float[1,3] c = {1, 2, 3},
int64[3,2] j = {0, 1, 4, 5, 8, 9}> { m = Mul(x, s) t = Transpose<perm = [0, 2, 1]>(m) """


@each_of(
    "reader, kinds",
    ("o.Im2Col(t, j)", ["Transpose", "Im2Col", "Mul"]),
    ("Relu(t)", None),  # behind which the Transpose goes itself
)
def test_single_numbers_pass_a_transpose_that_stays(reader, kinds, text):
    model = inferred(text(WINDOWS + f"y = {reader} }}"))
    assert SinkPastMovement()(model).modified == (kinds is not None)
    if kinds is not None:
        assert [n.op_type for n in model.graph if n.op_type != "Constant"] == kinds


SCORES = """(float[N,4] x) => (float[N,2] v, int64[N,2] y) <float[3] t = {0, 1, 2},
float w = {1}, float s = {0.3}, float b = {0.7}, float n = {-0.3}, float[4] c = {1, 2, 3, 4},
float big = {1e9}, int64[1] k = {2}> { q = o.MultiThreshold(x, t, w) """


def ranked(text, body):
    return inferred(text(SCORES + body + " }"))


@each_of(
    "body, kinds",
    ("m = Mul(q, s) a = Add(m, b) v, y = TopK(a, k)", ["TopK", "Mul", "Add"]),
    ("a = Div(q, s) v, y = TopK(a, k)", ["TopK", "Div"]),
    ("a = Add(q, b) y = ArgMax<axis = 1>(a) v = Exp(x)", ["ArgMax", "Exp"]),
    ("a = Mul(q, s) y = ArgMin<axis = 1>(a) v = Exp(x)", ["ArgMin", "Exp"]),
)
def test_single_numbers_pass_the_ranking_of_integers(body, kinds, text):
    model = ranked(text, body)
    before = testing.Snapshot(model)
    while SinkPastMovement()(model).modified:
        pass
    testing.assert_verified(SinkPastMovement(), before, model)
    assert [n.op_type for n in model.graph if n.op_type != "Constant"][1:] == kinds
    assert [value.name for value in model.graph.outputs] == ["v", "y"]


@each_of(
    "body",
    "a = Mul(x, s) v, y = TopK(a, k)",  # rounding makes floats equal
    "a = Mul(q, n) v, y = TopK(a, k)",
    "a = Mul(q, c) v, y = TopK(a, k)",
    "a = Add(q, big) v, y = TopK(a, k)",  # which is too big for them to differ
)
def test_stays_before_other_rankings(body, text):
    testing.assert_leaves_alone(SinkPastMovement(), ranked(text, body))
