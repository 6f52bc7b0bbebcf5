"""Values that samples lack and that models meet: each kind was missed by a gate once."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import each_of, each_row, edit_pass, rule_pass

HEAD = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]> g '
pytestmark = pytest.mark.usefixtures("own_registry")
DRAWN = "differs on drawn values"


def run(text, step, *words):
    model = ir.from_onnx_text(HEAD + text) if isinstance(text, str) else text
    config = default_config(["reproducers=false", "on_failure=rollback", *words], [step])
    report = run_pipeline(model, config).report
    return report.passes[-1].verdict, " ".join(report.preconditions)


def numbers(array):
    return ", ".join(map(str, array))


NORMAL = numbers(np.random.default_rng(1).normal(size=600).round(3))
POSITIVE = numbers(np.abs(np.random.default_rng(2).normal(size=32)).round(3))
BAND = """(float[N,5] x) => (float[N,5] y) <float a = {2.5}, float b = {BOUND}, float p = {1},
  float q = {2}, float r = {3}> { over = Greater(x, a) z = AHEAD under = Less(z, b)
  inner = Where(under, p, q) outer = Where(over, inner, r) y = Neg(outer) }"""
NEAR = BAND.replace("BOUND", "2.55").replace("AHEAD", "Identity(x)")
FAR = BAND.replace("BOUND", "6.5").replace("AHEAD", "Mul(x, x)")
SWAP = "Where(over, Where(under, p, q), r) => Where(over, q, r)"
SLICES = """(float[N,T,5] x) => (float[N,5] y) <int64[1] a = {2}, int64[1] b = {40},
  int64[1] one = {1}, int64[1] last = {LAST}> { s = Slice(x, a, b, one)
  t = Slice(s, one, last, one) z = Sin(t) y = REDUCE<keepdims = 0>(z, one) }"""
MISSING = """(float[N,4] x) => (float[N,4] y) <float[4] means = {1, 2, 3, 4}> { gone = IsNaN(x)
  filled = Where(gone, means, x) y = Neg(filled) }"""
UNFILL = "Where(IsNaN(x), means, x) => Identity(x)"


@each_row("""text | rule | contract | told
two thresholds that are close to each other: =NEAR | =SWAP | equality | failed
thresholds of a square: =FAR | =SWAP | equality | failed
rows shorter than a tiny bound: (float[N,6] x) => (float[N,6] y) <float floor = {1e-12},
  int64[1] last = {-1}> { h = Tanh(x) n = ReduceL2(h, last) m = Max(n, floor) y = Div(h, m) } |
  Div(h, Max(ReduceL2(h, last), floor)) => LpNormalization(h, axis=-1, p=2) | tolerance |
  failed or differs on drawn values
sizes that meet an integer through sums of masks: (int64[B,S] mask) => (float[B,S] y) <int64
  axis = {1}, int64 least = {0}, int64 most = {127}, int64 far = {200}> { count = CumSum(mask,
  axis) held = Clip(count, least, most) c = Cast<to = 1>(held) y = Neg(c) } | Clip(x, least,
  most) => Max(x, least) | equality | failed
more boxes than a suppression leaves: (float[1,N,4] loc, float[1,2,N] score) => (int64[K,3]
  kept) <int64 most = {100}, float overlap = {0.7}, float least = {0.05}> { near, span = Split
  <axis = 2, num_outputs = 2>(loc) size = Sigmoid(span) far = Add(near, size) box = Concat<axis
  = 2>(near, far) p = Sigmoid(score) kept = NonMaxSuppression(box, p, most, overlap, least) } |
  NonMaxSuppression(b, s, most, i, t) => NonMaxSuppression(b, s, Constant(value_ints=[2**20]),
  i, t) | equality | failed or NonMaxSuppression takes 100
the least integer has no opposite: (int32[N] x) => (int32[N] y) <int32 two = {2}> { h = Div(x,
  two) y = Neg(h) } | Neg(Div(x, two)) => Div(Neg(x), two) | equality | differs on drawn values
an integer that meets another behind arithmetic: (int64[S] ids) => (int64[K] y) <int64 three =
  {3}, int64 prime = {257}, int64 pad = {256}> { m = Mul(ids, three) r = Mod(m, prime) e =
  Equal(r, pad) keep = Not(e) kept = Compress<axis = 0>(ids, keep) y = Neg(kept) } |
  Compress(ids, Not(Equal(Mod(Mul(ids, three), prime), pad)), axis=0) => Identity(ids) |
  equality | failed or differs on drawn values
sizes that are even: (float[T,4] x) => (float[U,4] y) <int64[1] last = {-1}, int64[1] first =
  {-9223372036854775807}, int64[1] axis = {0}, int64[1] two = {-2}, int64[1] one = {-1}> { half
  = Slice(x, last, first, axis, two) back = Slice(half, last, first, axis, one) y =
  Sigmoid(back) } | Slice(Slice(x, last, first, axis, two), last, first, axis, one) => Slice(x,
  Constant(value_ints=[0]), Constant(value_ints=[2**62]), axis, Constant(value_ints=[2])) |
  equality | failed
a new side that reads what the old one reads through others: (float[N,16] x, float[N,16] m) =>
  (float[N,16] y, float[N,16] z) <float low = {-90000}, float high = {90000}> { h = Neg(x) d =
  Sub(h, m) z = Relu(d) y = Clip(d, low, high) } | Clip(Sub(h, m), low, high) => Sub(h, m) |
  equality | failed
rows that a maximum hides in the sample beyond 40: =SLICES.replace('REDUCE',
  'ReduceMax').replace('LAST', '-1') | Slice(Slice(x, a, b, axis), c, d, e) => Slice(x,
  Constant(value_ints=[3]), d, e) | equality | failed
no row of 30 is negative by chance, and each element alone reaches all values: =( '(float[N,20]
  x) => (int64[N] y) <float[20,30] w = {W}, float[30] b = {B}> { t = Tanh(x) m = ' 'MatMul(t,
  w) a = Add(m, b) r = Relu(a) y = ArgMax<axis = 1, keepdims = 0>(r) }').replace('W',
  NORMAL).replace('B}', numbers([-0.5] * 30) + '}') | ArgMax(Relu(x), axis=1, keepdims=0) =>
  ArgMax(x, axis=1, keepdims=0) | equality | failed or differs on drawn values
the smallest picture that a model takes: (float[N,1,H,W] x) => (float[N,1,V,U] y) <float[4] s =
  {1, 1, 0.25, 0.25}> { a = Sin(x) y = Resize<mode = "linear", coordinate_transformation_mode =
  "pytorch_half_pixel">(a, , s) } | Resize(x, None, s, mode='linear',
  coordinate_transformation_mode='pytorch_half_pixel') => Resize(x, None, s, mode='linear',
  coordinate_transformation_mode='half_pixel') | equality | failed
a bound of the new side behind nodes ahead: =('(float[N,8] x) => (float[N,4] y) <float[8,4] w
  =' ' {W}, float e = {1e-6}> { a = Mul(x, x) m = MatMul(a, w) g = Add(m, e) y = Log(g)
  }').replace( 'W', POSITIVE) | Log(Add(x, e)) => Log(Max(x, e)) | tolerance | failed
padding in front that only some integers make: (int64[N,T] ids) => (int64[N,T] y) <int64 pad =
  {150}, int64 low = {0}, int64 axis = {1}> { i = Clip(ids, low, pad) e = Equal(i, pad) n =
  Not(e) m = Cast<to = 7>(n) c = CumSum(m, axis) y = Mul(c, m) } | Mul(CumSum(m, axis), m) =>
  Mul(Range(Constant(value_int=1), Add(Squeeze(Shape(m, start=1)), Constant(value_int=1)),
  Constant(value_int=1)), m) | equality | failed or differs on drawn values
a row of a mask that lets nothing through: (float[N,T,T] s, int64[N,T] mask) => (float[N,T,T]
  y) <int64[1] axis = {1}, float low = {-1e9}> { b = Cast<to = 9>(mask) m = Unsqueeze(b, axis)
  h = Mul(s, s) w = Where(m, h, low) y = Softmax(w) } | Softmax(Where(m, s, low)) =>
  Softmax(Add(s, Mul(Cast(Not(m), to=1), Constant(value_float=-1e4)))) | tolerance | failed or
  differs on drawn values
words that a model does not list: (string[N] x) => (int64[N] y) { a = ai.onnx.ml.LabelEncoder
  <keys_strings = ["cat", "dog"], values_int64s = [1, 2], default_int64 = 2>(x) y =
  ai.onnx.ml.LabelEncoder<keys_int64s = [1, 2], values_int64s = [4, 0], default_int64 = 5>(a) }
  | LabelEncoder(LabelEncoder(x, _domain='ai.onnx.ml'), _domain='ai.onnx.ml') =>
  LabelEncoder(x, keys_strings=['cat', 'dog'], values_int64s=[4, 0], default_int64=5,
  _domain='ai.onnx.ml') | equality | failed
tiny numbers of another sign: (float[N,6] z) => (float[N,6] y) <float slack = {0.01}, float two
  = {2}, float half = {1.5}, float many = {1e6}> { p = Softplus(z) b = Sub(p, slack) s = Pow(b,
  two) c = Pow(s, half) y = Mul(c, many) } | Pow(Pow(b, two), half) => Mul(Mul(b, b), b) |
  tolerance | failed or differs on drawn values
squares that overflow where the original scales first: (float[N,2] p) => (float[N,1] y)
  <int64[2] ones = {1, 1}, int64[1] last = {1}, float tiny = {1e-30}> { a = Abs(p) x, z =
  Split<axis = 1>(a, ones) most = ReduceMax(a, last) m = Max(most, tiny) u = Div(x, m) v =
  Div(z, m) uu = Mul(u, u) vv = Mul(v, v) s = Add(uu, vv) t = Sqrt(s) h = Mul(t, m) y = Neg(h)
  } | (lambda u, v: Mul(Sqrt(Add(Mul(u, u), Mul(v, v))), m))(Div(x, m), Div(z, m)) =>
  Sqrt(Add(Mul(x, x), Mul(z, z))) | tolerance | failed or differs on drawn values
a size of one beside sizes that had to be found: (float[B,1,4] x, int64[1] n, float[B,T,4] z)
  => (float[B,S,4] y, float[B,4] w) <int64[1] one = {1}> { shape = Concat<axis = 0>(one, n,
  one) t = Expand(x, shape) y = Add(t, z) w = ReduceSum<keepdims = 0>(y, one) } | Add(Expand(x,
  shape), z) => Add(x, z) | equality | failed
bounds that cross where one number is small: (float[N,6] x, float width) => (float[N,6] y)
  <float slack = {0.02}> { p = Softplus(width) high = Sub(p, slack) low = Neg(high) below =
  Less(x, low) above = Greater(x, high) top = Where(above, high, x) y = Where(below, low, top)
  } | Where(Less(x, low), low, Where(Greater(x, high), high, x)) => Clip(x, low, high) |
  equality | failed or differs on drawn values
no rows behind a Softmax: (float[R,4] x) => (float[R,4] y) { f = Flatten(x) y = Softmax(f) } |
  Flatten(x) => Reshape(x, Constant(value_ints=[0, -1])) | equality | failed
nothing along a dimension that is not the first: (float[N,T] x) => (float[N,T] y) { f =
  Flatten(x) y = Sin(f) } | Flatten(x) => Reshape(x, Constant(value_ints=[-1, 0])) | equality |
  failed
an index that leads nowhere gives a row of zeros: (int64[N] i) => (float[N,2] y) <int64 depth
  = {4}, float[2] pair = {0, 1}, float[4,2] table = {1, 2, 3, 4, 5, 6, 7, 8}> { o = OneHot(i,
  depth, pair) y = MatMul(o, table) } | MatMul(OneHot(i, depth, pair), table) => Gather(table,
  i, axis=0) | equality | failed
missing numbers of a model that fills them in: =MISSING | =UNFILL | equality | failed
words of a model with capitals: (string[W] words) => (int64[K] y) { low = StringNormalizer
  <case_change_action = "LOWER", locale = "C">(words) kept = StringNormalizer<is_case_sensitive
  = 1, locale = "C", stopwords = ["the"]>(low) y = Shape(kept) } | StringNormalizer(
  StringNormalizer(words, case_change_action='LOWER', locale='C'), is_case_sensitive=1,
  locale='C', stopwords=['the']) => StringNormalizer(words, case_change_action='LOWER',
  is_case_sensitive=1, locale='C', stopwords=['the']) | equality | failed
""")
def test_a_wrong_rule_is_seen(text, rule, contract, told):
    step = rule_pass("Rare", rule, getattr(passes.verify, contract)).name
    verdict, conditions = run(text, step)
    assert any(part == verdict or part in conditions for part in told.split(" or "))


@each_row("""text | rule | contract
missing numbers of integers: =MISSING.replace('float[N,4] x', 'int32[N,4] n').replace('gone =',
  'x = Cast<to = 1>(n) gone =') | =UNFILL | equality
a place that is written twice has no defined value: (float[16,3] kept, int64[5] slots,
  float[5,3] new) => (float[16,3] y) <int64[5] order = {3, 1, 4, 0, 2}, int64[1] axis = {1}> {
  places = Gather<axis = 0>(slots, order) rows = Gather<axis = 0>(new, order) column =
  Unsqueeze(places, axis) y = ScatterND(kept, column, rows) } | ScatterND(kept,
  Unsqueeze(Gather(slots, order, axis=0), axis), Gather(new, order, axis=0)) => ScatterND(kept,
  Unsqueeze(slots, axis), new) | equality
a mean is drawn as that of its elements: (float[N,6] x) => (float[N,1] y, float[N,1] z)
  <int64[1] axis = {1}> { h = Tanh(x) m = ReduceMean(h, axis) s = Mul(h, h) e = ReduceMean(s,
  axis) q = Mul(m, m) y = Sub(e, q) z = Neg(m) } | Sub(ReduceMean(Mul(h, h), axis), Mul(m, m))
  => ReduceMean(Mul(Sub(h, m), Sub(h, m)), axis) | tolerance
a slice of T is as large as that of T, and N has nothing to do with it:
  =SLICES.replace('REDUCE', 'ReduceSum').replace('LAST', '30') | Slice(Slice(x, a, b, axis), c,
  d, e) => Slice(x, Constant(value_ints=[3]), Constant(value_ints=[32]), e) | equality
""")
def test_a_right_rule_is_accepted(text, rule, contract):
    step = rule_pass("Rare", rule, getattr(passes.verify, contract)).name
    assert run(text, step) == ("passed", "")


def with_tables(text, **tables):
    """Return a model in which values are tables."""
    model = ir.from_onnx_text(HEAD + text)
    for name, table in tables.items():
        value = next(v for n in model.graph for v in n.inputs if v.name == name)
        value.const_value = ir.tensor(table, name=name)
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(table.shape)
        model.graph.initializers[name] = value
    return model


def test_one_row_of_a_large_table():
    @edit_pass()
    def change_a_row(model):
        table = model.graph.initializers["table"]
        array = table.const_value.numpy().copy()
        array[1437] = 9
        table.const_value = ir.tensor(array, name="table")

    text = "(int64[B,S] ids) => (float[B,S,4] y) { e = Gather(table, ids) y = Neg(e) }"
    table = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    verdict, told = run(with_tables(text, table=table), change_a_row.name)
    assert verdict == "failed" or "e differs" in told


def merge(first, second, contract=passes.verify.equality):
    @edit_pass(contract)
    def read_one_for_the_other(model):
        values = model.graph.initializers
        modified = bool(values[second].uses())
        ir.convenience.replace_all_uses_with(values[second], values[first])
        return modified

    return read_one_for_the_other


def test_an_index_that_a_maximum_hides():
    text = """(int64[N,K] q, int64[N,K] d) => (float[N,7] a, float[N,7] b)
        <int64[1] axis = {1}> {
        e = Gather(first, q) a = ReduceMax<keepdims = 0>(e, axis)
        f = Gather(second, d) b = ReduceMax<keepdims = 0>(f, axis) }"""
    first = np.random.default_rng(0).normal(size=(420, 7)).astype(np.float32)
    second = first - 0.5 * (np.arange(420) == 233)[:, None].astype(np.float32)
    model = with_tables(text, first=first, second=second)
    assert run(model, merge("first", "second").name)[0] == "failed"


def test_zeros_behind_which_an_offset_is_all_there_is():
    text = """(float[N,5] p, float[N,5] q) => (float[N] y)
    <float a = {1e-9}, float b = {1e-12}, int64[1] last = {1}> {
        u = Abs(p) v = Abs(q) s = Add(u, a) t = Add(v, b) l = Log(s) m = Log(t) d = Sub(l, m)
        e = Mul(d, u) y = ReduceSum<keepdims = 0>(e, last) }"""
    verdict, told = run(text, merge("a", "b", passes.verify.tolerance).name)
    assert verdict == "failed" or DRAWN in told


def test_features_at_the_threshold_of_a_tree():
    @edit_pass()
    def compare_strictly(model):
        modes = ir.AttrStrings("nodes_modes", ["BRANCH_LT", "LEAF", "LEAF"])
        model.graph[-1].attributes["nodes_modes"] = modes

    text = """(float[N,2] x) => (float[N,1] y) { z = Tanh(x)
    y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_treeids = [0, 0, 0],
        nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0],
        nodes_values = [0.375, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, -1.0]>(z) }"""
    verdict, told = run(text, compare_strictly.name)
    assert verdict == "failed" or DRAWN in told


def test_a_condition_that_ends_a_loop_on_no_sample():
    @edit_pass()
    def run_to_the_limit(model):
        (node,) = (n for n in model.graph if n.op_type == "Loop")
        body = node.attributes["body"].as_graph()
        if body.outputs[0].producer().op_type == "Identity":
            return False
        kept = ir.node("Identity", [body.inputs[1]])
        kept.outputs[0].name, kept.outputs[0].dtype = "kept", ir.DataType.BOOL
        kept.outputs[0].shape = ir.Shape([])
        body.append(kept)
        body.outputs[0] = kept.outputs[0]
        return True

    text = """(float[1,8] x) => (float[1,8] y) <bool go = {1}, int64 most = {6}> {
    y = Loop(most, go, x) <body = b (int64 i, bool ci, float[1,8] s) => (bool co, float[1,8] r)
        <float far = {1e3}, float half = {0.5}> { top = ReduceMax<keepdims = 0>(s)
            met = Greater(top, far) co = Not(met) r = Mul(s, half) }> }"""
    verdict, told = run(text, run_to_the_limit.name)
    assert verdict == "failed" or DRAWN in told


def test_a_number_of_iterations_that_is_computed_is_zero():
    @edit_pass()
    def compute_once(model):
        loops = [n for n in model.graph if n.op_type == "Loop"]
        for node in loops:
            once = ir.node("Tanh", [model.graph.inputs[0]])
            model.graph.insert_before(node, once)
            once.outputs[0].name, node.outputs[0].name = "y", "gone"
            once.outputs[0].type = node.outputs[0].type
            once.outputs[0].shape = node.outputs[0].shape
            model.graph.outputs[0] = once.outputs[0]
            model.graph.remove(node)
        return bool(loops)

    text = """(float[N] x, int64 count) => (float[N] y) <int64 most = {16}, bool go = {1}> {
    n = Min(count, most) y = Loop(n, go, x) <body = b (int64 i, bool c, float[N] s) =>
        (bool d, float[N] t) { d = Identity(c) t = Tanh(x) }> }"""
    assert run(text, compute_once.name)[0] == "failed"


@each_of("words", [], ["verify.memory_limit=1kB"])
def test_a_mask_is_drawn_as_one_of_its_two_numbers(words):
    """So right fusions of attention had preconditions on masks that add infinity."""
    text = """(bool[N,4] c, float[N,4] z) => (float[N,4] y)
        <float no = {-1e30}, float yes = {0}> {
        s = Sin(z) t = Cos(s) x = Tanh(t) m = Where(c, yes, no) a = Add(x, m) y = Neg(a) }"""
    rule = "Add(x, m) => Where(GreaterOrEqual(m, Constant(value_float=0.0)), x, m)"
    assert run(text, rule_pass("Choose", rule).name, *words) == ("passed", "")
    wrong = rule.replace("value_float=0.0", "value_float=-1e31")
    assert run(text, rule_pass("ChooseWrongly", wrong).name, *words)[0] == "failed"
