"""Values that samples lack and that models meet: each kind was missed by a gate once."""

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import each_of

HEAD = '<ir_version: 10, opset_import: ["": 21]> g '


def rule(name, pattern, rewrite, contract=passes.verify.equality):
    """Register a pass of one rule."""
    members = {"pattern": pattern, "rewrite": rewrite, "__doc__": "A wrong rewrite."}
    cls = type(name, (Transformation, RewriteRulePass), members)
    return passes.register()(contract(cls)).name


def run(text, step):
    config = default_config(["reproducers=false", "on_failure=rollback"], [step])
    report = run_pipeline(ir.from_onnx_text(HEAD + text), config).report
    return report.passes[-1].verdict, " ".join(report.preconditions)


BAND = """(float[N,5] x) => (float[N,5] y)
<float a = {2.5}, float b = {B}, float p = {1}, float q = {2}, float r = {3}> {
    over = Greater(x, a) SQUARE under = Less(z, b)
    inner = Where(under, p, q) outer = Where(over, inner, r) y = Neg(outer) }"""
swap = rule(
    "RareBand",
    lambda self, op, over, under, p, q, r: op.Where(over, op.Where(under, p, q), r),
    lambda self, op, over, under, p, q, r: op.Where(over, q, r),
)


@each_of("bound, square", ("2.55", "z = Identity(x)"), ("6.5", "z = Mul(x, x)"))
def test_between_two_thresholds_that_are_close_to_each_other(bound, square):
    assert run(BAND.replace("B}", bound + "}").replace("SQUARE", square), swap)[0] == "failed"


NORM = """(float[N,6] x) => (float[N,6] y) <float floor = {1e-12}, int64[1] last = {-1}> {
    h = Tanh(x) n = ReduceL2(h, last) m = Max(n, floor) y = Div(h, m) }"""
normalise = rule(
    "RareNorm",
    lambda self, op, h, floor, last: op.Div(h, op.Max(op.ReduceL2(h, last), floor)),
    lambda self, op, h, floor, last: op.LpNormalization(h, axis=-1, p=2),
    passes.verify.tolerance(),
)


def test_rows_shorter_than_a_tiny_bound():
    verdict, told = run(NORM, normalise)
    assert verdict == "failed" or "differs on drawn values" in told


MASK = """(int64[B,S] mask) => (float[B,S] y)
<int64 axis = {1}, int64 least = {0}, int64 most = {127}, int64 far = {200}> {
    count = CumSum(mask, axis) held = Clip(count, least, most) c = Cast<to = 1>(held)
    y = Neg(c) }"""
unclip = rule(
    "RareClip",
    lambda self, op, x, least, most: op.Clip(x, least, most),
    lambda self, op, x, least, most: op.Max(x, least),
)


def test_sizes_that_meet_an_integer_through_sums_of_masks():
    assert run(MASK, unclip)[0] == "failed"


BOXES = """(float[1,N,4] loc, float[1,2,N] score) => (int64[K,3] kept)
<int64 most = {100}, float overlap = {0.7}, float least = {0.05}> {
    near, span = Split<axis = 2, num_outputs = 2>(loc) size = Sigmoid(span)
    far = Add(near, size) box = Concat<axis = 2>(near, far) p = Sigmoid(score)
    kept = NonMaxSuppression(box, p, most, overlap, least) }"""
unlimit = rule(
    "RareBoxes",
    lambda self, op, b, s, most, i, t: op.NonMaxSuppression(b, s, most, i, t),
    lambda self, op, b, s, most, i, t: op.NonMaxSuppression(
        b, s, op.Constant(value_ints=[2**20]), i, t
    ),
)


def test_more_boxes_than_a_suppression_leaves():
    verdict, told = run(BOXES, unlimit)
    assert verdict == "failed" or "NonMaxSuppression takes 100" in told


@passes.verify.equality
@passes.register()
class RareRow(Transformation):
    """Change one row of a table."""

    def call(self, model):
        table = model.graph.initializers["table"]
        array = table.const_value.numpy().copy()
        array[1437] = 9
        table.const_value = ir.tensor(array, name="table")
        return ir.passes.PassResult(model, modified=True)


def test_one_row_of_a_large_table():
    model = ir.from_onnx_text(
        HEAD + "(int64[B,S] ids) => (float[B,S,4] y) { e = Gather(table, ids) y = Neg(e) }"
    )
    weights = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
    node = model.graph[0]
    value = ir.Value(name="table", const_value=ir.tensor(weights, name="table"))
    node.replace_input_with(0, value)
    model.graph.register_initializer(value)
    config = default_config(["reproducers=false"], ["rare-row"])
    report = run_pipeline(model, config).report
    assert report.passes[-1].verdict == "failed" or "e differs" in " ".join(
        report.preconditions
    )


HALF = "(int32[N] x) => (int32[N] y) <int32 two = {2}> { h = Div(x, two) y = Neg(h) }"
negate = rule(
    "RareMinimum",
    lambda self, op, x, two: op.Neg(op.Div(x, two)),
    lambda self, op, x, two: op.Div(op.Neg(x), two),
)


def test_the_least_integer_has_no_opposite():
    assert "differs on drawn values" in run(HALF, negate)[1]


RESIDUE = """(int64[S] ids) => (int64[K] y)
<int64 three = {3}, int64 prime = {257}, int64 pad = {256}> {
    m = Mul(ids, three) r = Mod(m, prime) e = Equal(r, pad) keep = Not(e)
    kept = Compress<axis = 0>(ids, keep) y = Neg(kept) }"""
keep_all = rule(
    "RareResidue",
    lambda self, op, ids, three, prime, pad: op.Compress(
        ids, op.Not(op.Equal(op.Mod(op.Mul(ids, three), prime), pad)), axis=0
    ),
    lambda self, op, ids, **_: op.Identity(ids),
)


def test_an_integer_that_meets_another_behind_arithmetic():
    verdict, told = run(RESIDUE, keep_all)
    assert verdict == "failed" or "differs on drawn values" in told


STEPS = """(float[T,4] x) => (float[U,4] y)
<int64[1] last = {-1}, int64[1] first = {-9223372036854775807}, int64[1] axis = {0},
 int64[1] two = {-2}, int64[1] one = {-1}> {
    half = Slice(x, last, first, axis, two) back = Slice(half, last, first, axis, one)
    y = Sigmoid(back) }"""
merge = rule(
    "RareSteps",
    lambda self, op, x, last, first, axis, two, one: op.Slice(
        op.Slice(x, last, first, axis, two), last, first, axis, one
    ),
    lambda self, op, x, axis, **_: op.Slice(
        x,
        op.Constant(value_ints=[0]),
        op.Constant(value_ints=[2**62]),
        axis,
        op.Constant(value_ints=[2]),
    ),
)


def test_sizes_that_are_even():
    assert run(STEPS, merge)[0] == "failed"


AHEAD = """(float[N,16] x, float[N,16] m) => (float[N,16] y, float[N,16] z)
<float low = {-90000}, float high = {90000}> {
    h = Neg(x) d = Sub(h, m) z = Relu(d) y = Clip(d, low, high) }"""


def clipped(self, op, h, m, low, high):
    return op.Clip(op.Sub(h, m), low, high)


unclip_ahead = rule("RareAhead", clipped, lambda self, op, h, m, low, high: op.Sub(h, m))


def test_a_new_side_that_reads_what_the_old_one_reads_through_others():
    """``h`` and ``m`` are nothing that the Clip reads itself; such parts were skipped."""
    assert run(AHEAD, unclip_ahead)[0] == "failed"


TWO_SLICES = """(float[N,T,5] x) => (float[N,5] y) <int64[1] a = {2}, int64[1] b = {40},
int64[1] one = {1}, int64[1] last = {-1}> {
    s = Slice(x, a, b, one) t = Slice(s, one, last, one) z = Sin(t)
    y = ReduceMax<keepdims = 0>(z, one) }"""
join = rule(
    "RareEnds",
    lambda self, op, x, a, b, axis, c, d, e: op.Slice(op.Slice(x, a, b, axis), c, d, e),
    lambda self, op, x, a, b, axis, c, d, e: op.Slice(x, op.Constant(value_ints=[3]), d, e),
)


def test_rows_that_a_maximum_hides():
    """The sample beyond 40 differs in two rows of 40, and none of its maxima does."""
    assert run(TWO_SLICES, join)[0] == "failed"


@passes.verify.equality
@passes.register()
class RareTable(Transformation):
    """Read one table in place of another with a different row."""

    def call(self, model):
        values = model.graph.initializers
        ir.convenience.replace_all_uses_with(values["second"], values["first"])
        return ir.passes.PassResult(model, modified=True)


def test_an_index_that_a_maximum_hides():
    text = """(int64[N,K] q, int64[N,K] d) => (float[N,7] a, float[N,7] b)
    <int64[1] axis = {1}> {
        e = Gather(first, q) a = ReduceMax<keepdims = 0>(e, axis)
        f = Gather(second, d) b = ReduceMax<keepdims = 0>(f, axis) }"""
    model = ir.from_onnx_text(HEAD + text)
    first = np.random.default_rng(0).normal(size=(420, 7)).astype(np.float32)
    second = first.copy()
    second[233] = first[233] - 0.5
    for name, table in {"first": first, "second": second}.items():
        value = next(v for n in model.graph for v in n.inputs if v.name == name)
        value.const_value = ir.tensor(table, name=name)
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(table.shape)
        model.graph.initializers[name] = value
    config = default_config(["reproducers=false"], ["rare-table"])
    assert run_pipeline(model, config).error is not None


CLASSES = """(float[N,20] x) => (int64[N] y) <float[20,30] w = {W}, float[30] b = {B}> {
    t = Tanh(x) m = MatMul(t, w) a = Add(m, b) r = Relu(a) y = ArgMax<axis = 1,
    keepdims = 0>(r) }"""
unrelu = rule(
    "RareClasses",
    lambda self, op, x: op.ArgMax(op.Relu(x), axis=1, keepdims=0),
    lambda self, op, x: op.ArgMax(x, axis=1, keepdims=0),
)


def test_elements_that_only_together_make_a_difference():
    """No row of 30 is negative by chance: each element alone reaches all values."""
    w = np.random.default_rng(1).normal(size=600).round(3)
    text = CLASSES.replace("{W}", f"{{{', '.join(map(str, w))}}}")
    text = text.replace("{B}", f"{{{', '.join(['-0.5'] * 30)}}}")
    verdict, told = run(text, unrelu)
    assert verdict == "failed" or "differs on drawn values" in told


TREE = """(float[N,2] x) => (float[N,1] y) {
    z = Tanh(x)
    y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_treeids = [0, 0, 0],
        nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0],
        nodes_values = [0.375, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0],
        target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, -1.0]>(z) }"""


@passes.verify.equality
@passes.register()
class RareTree(Transformation):
    """Compare features strictly."""

    def call(self, model):
        node = model.graph[-1]
        modes = ["BRANCH_LT", "LEAF", "LEAF"]
        node.attributes["nodes_modes"] = ir.AttrStrings("nodes_modes", modes)
        return ir.passes.PassResult(model, modified=True)


def test_features_at_the_threshold_of_a_tree():
    head = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]> g '
    config = default_config(["reproducers=false", "on_failure=rollback"], ["rare-tree"])
    report = run_pipeline(ir.from_onnx_text(head + TREE), config).report
    told = " ".join(report.preconditions)
    assert report.passes[-1].verdict == "failed" or "differs on drawn values" in told


PICTURE = """(float[N,1,H,W] x) => (float[N,1,V,U] y) <float[4] s = {1, 1, 0.25, 0.25}> {
    a = Sin(x) y = Resize<mode = "linear",
    coordinate_transformation_mode = "pytorch_half_pixel">(a, , s) }"""
half_pixel = rule(
    "RarePixel",
    lambda self, op, x, s: op.Resize(
        x, None, s, mode="linear", coordinate_transformation_mode="pytorch_half_pixel"
    ),
    lambda self, op, x, s: op.Resize(
        x, None, s, mode="linear", coordinate_transformation_mode="half_pixel"
    ),
)


def test_the_smallest_picture_that_a_model_takes():
    assert run(PICTURE, half_pixel)[0] == "failed"


def test_what_a_slice_leaves_is_as_large_as_what_it_is_cut_from():
    """Sizes of T are beyond 40: those of N have nothing to do with it."""
    text = TWO_SLICES.replace("ReduceMax", "ReduceSum").replace("{-1}", "{30}")
    config = default_config(["reproducers=false"], ["rare-ends-right"])
    report = run_pipeline(ir.from_onnx_text(HEAD + text), config).report
    assert (report.exit_code, report.preconditions) == (0, [])


rule(
    "RareEndsRight",
    lambda self, op, x, a, b, axis, c, d, e: op.Slice(op.Slice(x, a, b, axis), c, d, e),
    lambda self, op, x, a, b, axis, c, d, e: op.Slice(
        x, op.Constant(value_ints=[3]), op.Constant(value_ints=[32]), e
    ),
)


ENERGY = """(float[N,8] x) => (float[N,4] y) <float[8,4] w = {W}, float e = {1e-6}> {
    a = Mul(x, x) m = MatMul(a, w) g = Add(m, e) y = Log(g) }"""
guard = rule(
    "RareEnergy",
    lambda self, op, x, e: op.Log(op.Add(x, e)),
    lambda self, op, x, e: op.Log(op.Max(x, e)),
    passes.verify.tolerance(),
)


def test_a_bound_of_the_new_side_behind_nodes_ahead():
    w = np.abs(np.random.default_rng(2).normal(size=32)).round(3)
    text = ENERGY.replace("{W}", f"{{{', '.join(map(str, w))}}}")
    assert run(text, guard)[0] == "failed"


PADDED = """(int64[N,T] ids) => (int64[N,T] y)
<int64 pad = {150}, int64 low = {0}, int64 axis = {1}> {
    i = Clip(ids, low, pad) e = Equal(i, pad) n = Not(e) m = Cast<to = 7>(n)
    c = CumSum(m, axis) y = Mul(c, m) }"""
count = rule(
    "RarePositions",
    lambda self, op, m, axis: op.Mul(op.CumSum(m, axis), m),
    lambda self, op, m, axis: op.Mul(
        op.Range(
            op.Constant(value_int=1),
            op.Add(op.Squeeze(op.Shape(m, start=1)), op.Constant(value_int=1)),
            op.Constant(value_int=1),
        ),
        m,
    ),
)


def test_padding_in_front_that_only_some_integers_make():
    verdict, told = run(PADDED, count)
    assert verdict == "failed" or "differs on drawn values" in told


HIDDEN = """(float[N,T,T] s, int64[N,T] mask) => (float[N,T,T] y)
<int64[1] axis = {1}, float low = {-1e9}> {
    b = Cast<to = 9>(mask) m = Unsqueeze(b, axis) h = Mul(s, s) w = Where(m, h, low)
    y = Softmax(w) }"""
add = rule(
    "RareMask",
    lambda self, op, m, s, low: op.Softmax(op.Where(m, s, low)),
    lambda self, op, m, s, low: op.Softmax(
        op.Add(s, op.Mul(op.Cast(op.Not(m), to=1), op.Constant(value_float=-1e4)))
    ),
    passes.verify.tolerance(),
)


def test_a_row_of_a_mask_that_lets_nothing_through():
    verdict, told = run(HIDDEN, add)
    assert verdict == "failed" or "differs on drawn values" in told


DECODER = """(float[1,8] x) => (float[1,8] y) <bool go = {1}, int64 most = {6}> {
    y = Loop(most, go, x) <body = b (int64 i, bool ci, float[1,8] s) => (bool co, float[1,8] r)
        <float far = {1e3}, float half = {0.5}> {
            top = ReduceMax<keepdims = 0>(s) met = Greater(top, far) co = Not(met)
            r = Mul(s, half) }> }"""


@passes.verify.equality
@passes.register()
class RareEnd(Transformation):
    """Let the first of these Loops run to its limit."""

    def call(self, model):
        (node,) = (n for n in model.graph if n.op_type == "Loop")
        body = node.attributes["body"].as_graph()
        if body.outputs[0].producer().op_type == "Identity":
            return ir.passes.PassResult(model, False)
        kept = ir.node("Identity", [body.inputs[1]])
        kept.outputs[0].name, kept.outputs[0].dtype = "kept", ir.DataType.BOOL
        kept.outputs[0].shape = ir.Shape([])
        body.append(kept)
        body.outputs[0] = kept.outputs[0]
        return ir.passes.PassResult(model, True)


def test_a_condition_that_ends_a_loop_on_no_sample():
    verdict, told = run(DECODER, RareEnd.name)
    assert verdict == "failed" or "differs on drawn values" in told


ENCODERS = """<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>
g (string[N] x) => (int64[N] y) {
    a = ai.onnx.ml.LabelEncoder<keys_strings = ["cat", "dog"], values_int64s = [1, 2],
        default_int64 = 2>(x)
    y = ai.onnx.ml.LabelEncoder<keys_int64s = [1, 2], values_int64s = [4, 0],
        default_int64 = 5>(a) }"""
encode = rule(
    "RareWord",
    lambda self, op, x: op.LabelEncoder(
        op.LabelEncoder(x, _domain="ai.onnx.ml"), _domain="ai.onnx.ml"
    ),
    lambda self, op, x: op.LabelEncoder(
        x,
        keys_strings=["cat", "dog"],
        values_int64s=[4, 0],
        default_int64=5,
        _domain="ai.onnx.ml",
    ),
)


def test_words_that_a_model_does_not_list():
    config = default_config(["reproducers=false", "on_failure=rollback"], [encode])
    report = run_pipeline(ir.from_onnx_text(ENCODERS), config).report
    assert report.passes[-1].verdict == "failed"


COUNTED = """(float[N] x, int64 count) => (float[N] y) <int64 most = {16}, bool go = {1}> {
    n = Min(count, most)
    y = Loop(n, go, x) <body = b (int64 i, bool c, float[N] s) => (bool d, float[N] t) {
        d = Identity(c) t = Tanh(x) }> }"""


@passes.verify.equality
@passes.register()
class RareTrip(Transformation):
    """Compute once what each iteration of a Loop computes."""

    def call(self, model):
        loops = [n for n in model.graph if n.op_type == "Loop"]
        for node in loops:
            once = ir.node("Tanh", [model.graph.inputs[0]])
            model.graph.insert_before(node, once)
            once.outputs[0].name, node.outputs[0].name = "y", "gone"
            once.outputs[0].type = node.outputs[0].type
            once.outputs[0].shape = node.outputs[0].shape
            model.graph.outputs[0] = once.outputs[0]
            model.graph.remove(node)
        return ir.passes.PassResult(model, bool(loops))


def test_a_number_of_iterations_that_is_computed_is_zero():
    assert run(COUNTED, RareTrip.name)[0] == "failed"


POWERS = """(float[N,6] z) => (float[N,6] y)
<float slack = {0.01}, float two = {2}, float half = {1.5}, float many = {1e6}> {
    p = Softplus(z) b = Sub(p, slack) s = Pow(b, two) c = Pow(s, half) y = Mul(c, many) }"""
cube = rule(
    "RareSign",
    lambda self, op, b, two, half: op.Pow(op.Pow(b, two), half),
    lambda self, op, b, two, half: op.Mul(op.Mul(b, b), b),
    passes.verify.tolerance(),
)


def test_tiny_numbers_of_another_sign():
    verdict, told = run(POWERS, cube)
    assert verdict == "failed" or "differs on drawn values" in told


LENGTH = """(float[N,2] p) => (float[N,1] y)
<int64[2] ones = {1, 1}, int64[1] last = {1}, float tiny = {1e-30}> {
    a = Abs(p) x, z = Split<axis = 1>(a, ones) most = ReduceMax(a, last) m = Max(most, tiny)
    u = Div(x, m) v = Div(z, m) uu = Mul(u, u) vv = Mul(v, v) s = Add(uu, vv) t = Sqrt(s)
    h = Mul(t, m) y = Neg(h) }"""


def scaled(self, op, x, z, m):
    u, v = op.Div(x, m), op.Div(z, m)
    return op.Mul(op.Sqrt(op.Add(op.Mul(u, u), op.Mul(v, v))), m)


plain = rule(
    "RareLength",
    scaled,
    lambda self, op, x, z, m: op.Sqrt(op.Add(op.Mul(x, x), op.Mul(z, z))),
    passes.verify.tolerance(),
)


def test_squares_that_overflow_where_the_original_scales_first():
    verdict, told = run(LENGTH, plain)
    assert verdict == "failed" or "differs on drawn values" in told


REPEATED = """(float[B,1,4] x, int64[1] n, float[B,T,4] z) => (float[B,S,4] y, float[B,4] w)
<int64[1] one = {1}> {
    shape = Concat<axis = 0>(one, n, one) t = Expand(x, shape) y = Add(t, z)
    w = ReduceSum<keepdims = 0>(y, one) }"""
expand = rule(
    "RareSize",
    lambda self, op, x, shape, z: op.Add(op.Expand(x, shape), z),
    lambda self, op, x, shape, z: op.Add(x, z),
)


def test_a_size_of_one_beside_sizes_that_had_to_be_found():
    assert run(REPEATED, expand)[0] == "failed"


CROSSING = """(float[N,6] x, float width) => (float[N,6] y) <float slack = {0.02}> {
    p = Softplus(width) high = Sub(p, slack) low = Neg(high) below = Less(x, low)
    above = Greater(x, high) top = Where(above, high, x) y = Where(below, low, top) }"""
bound = rule(
    "RareBound",
    lambda self, op, x, low, high: op.Where(
        op.Less(x, low), low, op.Where(op.Greater(x, high), high, x)
    ),
    lambda self, op, x, low, high: op.Clip(x, low, high),
)


def test_bounds_that_cross_where_one_number_is_small():
    verdict, told = run(CROSSING, bound)
    assert verdict == "failed" or "differs on drawn values" in told


OFFSETS = """(float[N,5] p, float[N,5] q) => (float[N] y)
<float a = {1e-9}, float b = {1e-12}, int64[1] last = {1}> {
    u = Abs(p) v = Abs(q) s = Add(u, a) t = Add(v, b) l = Log(s) m = Log(t) d = Sub(l, m)
    e = Mul(d, u) y = ReduceSum<keepdims = 0>(e, last) }"""


@passes.verify.tolerance()
@passes.register()
class RareOffset(Transformation):
    """Keep the first of two initializers that are close to each other."""

    def call(self, model):
        first, second = (model.graph.initializers[name] for name in "ab")
        modified = bool(second.uses())
        ir.convenience.replace_all_uses_with(second, first)
        return ir.passes.PassResult(model, modified)


def test_zeros_behind_which_an_offset_is_all_there_is():
    verdict, told = run(OFFSETS, RareOffset.name)
    assert verdict == "failed" or "differs on drawn values" in told


MISSING = """(float[N,4] x) => (float[N,4] y) <float[4] means = {1, 2, 3, 4}> {
    gone = IsNaN(x) filled = Where(gone, means, x) y = Neg(filled) }"""
unfill = rule(
    "RareMissing",
    lambda self, op, x, means: op.Where(op.IsNaN(x), means, x),
    lambda self, op, x, means: op.Identity(x),
)


def test_missing_numbers_of_a_model_that_fills_them_in():
    assert run(MISSING, unfill)[0] == "failed"
    integers = MISSING.replace("float[N,4] x", "int32[N,4] n")
    integers = integers.replace("gone =", "x = Cast<to = 1>(n) gone =")
    assert run(integers, unfill)[0] == "passed", "no integer is missing"


STOPPED = """(string[W] words) => (int64[K] y) {
    low = StringNormalizer<case_change_action = "LOWER", locale = "C">(words)
    kept = StringNormalizer<is_case_sensitive = 1, locale = "C", stopwords = ["the"]>(low)
    y = Shape(kept) }"""
normalise_once = rule(
    "RareCapital",
    lambda self, op, words: op.StringNormalizer(
        op.StringNormalizer(words, case_change_action="LOWER", locale="C"),
        is_case_sensitive=1,
        locale="C",
        stopwords=["the"],
    ),
    lambda self, op, words: op.StringNormalizer(
        words, case_change_action="LOWER", is_case_sensitive=1, locale="C", stopwords=["the"]
    ),
)


def test_words_of_a_model_with_capitals():
    assert run(STOPPED, normalise_once)[0] == "failed"


SLOTS = """(float[16,3] kept, int64[5] slots, float[5,3] new) => (float[16,3] y)
<int64[5] order = {3, 1, 4, 0, 2}, int64[1] axis = {1}> {
    places = Gather<axis = 0>(slots, order) rows = Gather<axis = 0>(new, order)
    column = Unsqueeze(places, axis) y = ScatterND(kept, column, rows) }"""
in_order = rule(
    "RareSlots",
    lambda self, op, kept, slots, new, order, axis: op.ScatterND(
        kept,
        op.Unsqueeze(op.Gather(slots, order, axis=0), axis),
        op.Gather(new, order, axis=0),
    ),
    lambda self, op, kept, slots, new, order, axis: op.ScatterND(
        kept, op.Unsqueeze(slots, axis), new
    ),
)


def test_a_place_that_is_written_twice_has_no_defined_value():
    assert run(SLOTS, in_order) == ("passed", "")


SPREAD = """(float[N,6] x) => (float[N,1] y, float[N,1] z) <int64[1] axis = {1}> {
    h = Tanh(x) m = ReduceMean(h, axis) s = Mul(h, h) e = ReduceMean(s, axis) q = Mul(m, m)
    y = Sub(e, q) z = Neg(m) }"""
spread = rule(
    "RareSpread",
    lambda self, op, h, m, axis: op.Sub(op.ReduceMean(op.Mul(h, h), axis), op.Mul(m, m)),
    lambda self, op, h, m, axis: op.ReduceMean(op.Mul(op.Sub(h, m), op.Sub(h, m)), axis),
    passes.verify.tolerance(),
)


def test_a_mean_is_drawn_as_that_of_its_elements():
    assert run(SPREAD, spread) == ("passed", "")
