import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.annotation import shape_inference
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.testing import parse
from tests.tables import each_of, each_row

HEADER = '<ir_version: 10, opset_import: ["" : 20]> m '


def shapes(model):
    return {
        v.name: str(v.shape) if v.shape is not None else None
        for node in all_nodes(model)
        for v in node.outputs
    }


def infer(text, **options):
    model = ir.from_onnx_text(text if text.startswith("<") else HEADER + text)
    pass_ = ShapeInference(**options)
    pass_(model)
    assert not pass_(model).modified, "infers more the second time"
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return model


@each_row("""text | want
names of dimensions come from the inputs: (float[N,3] x) => (float[?,?] y) <float[3,4] w =
  {1,1,1,1,1,1,1,1,1,1,1,1}> { t = MatMul(x, w) u = Exp(t) y = Transpose(u) } | ={'t': '[N,4]',
  'u': '[N,4]'}
a name that an exporter made up gives way to that of the input: (float[N,3] x) => (float[?,?]
  y) <float[auto_1,3] t> { t = Exp(x) y = Neg(t) } | ={'t': '[N,3]'}
a size that turns up in the second round is passed on: (float[batch,4,16,16] x, int64[1] n,
  float[3,3,1,1] w) => (float[?,?,?] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[2] rest
  = {3, -1}> { s = Slice(x, zero, n, one) c = Conv(s, w) d = Shape<start = 0, end = 1>(x) t =
  Concat<axis = 0>(d, rest) r = Reshape(c, t) p = Concat<axis = 2>(r, r) y = Neg(p) } | ={'r':
  '[batch,3,256]', 'p': '[batch,3,512]'}
shapes are computed from values: (float[N,6] x) => (float[?,?,?] y) <int64[1] i = {0}, int64[2]
  r = {2, 3}> { s = Shape(x) n = Gather<axis = 0>(s, i) t = Concat<axis = 0>(n, r) u =
  Reshape(x, t) y = Neg(u) } | ={'u': '[N,2,3]'}
the operators win against a wrong declaration: (float[2,3] x) => (float[2,3] y) <float[2,7] t>
  { t = Exp(x) y = Neg(t) } | ={'t': '[2,3]'}
a declared size gives way to the name of an input: (float[N,3] x, bool c) => (float[a,b] y)
  <float[5,3] t> { t = Relu(x) u = If(c) <then_branch = p () => (float[5,K] d) { d = Abs(t) },
  else_branch = e () => (float[5,3] h) { h = Neg(t) }> y = Abs(u) } | ={'t': '[N,3]', 'd':
  '[N,3]', 'u': '[N,3]'}
a declared size that cannot be inferred spreads: (float[N] x) => (int64[?,?] y) <int64[1,5] t>
  { t = NonZero(x) u = Neg(t) y = Abs(u) } | ={'t': '[1,5]', 'u': '[1,5]'}
a range up to a dimension has that dimension: (float[B,S] x) => (int64[?] y) { s = Shape(x) one
  = Constant<value_int = 1>() zero = Constant<value_int = 0>() n = Gather(s, one) r =
  Range(zero, n, one) y = Neg(r) } | ={'r': '[S]'}
a slice of a whole dimension keeps its name: (float[B,S] x) => (float[?,?] y) { s = Shape(x) a
  = Constant<value_ints = [1]>() b = Constant<value_ints = [2]>() n = Slice(s, a, b) o =
  Constant<value_ints = [0]>() t = Slice(x, o, n, a) y = Neg(t) } | ={'t': '[B,S]'}
looks into subgraphs: (bool c, float[N,3] x) => (float[?,?] y) { y = If(c) < then_branch = g ()
  => (float[?,?] t) { a = Exp(x) t = Neg(a) }, else_branch = h () => (float[?,?] e) { b =
  Abs(x) e = Neg(b) }> } | ={'a': '[N,3]', 'b': '[N,3]'}
""")
def test_shapes(text, want):
    found = shapes(infer(text))
    assert {name: found[name] for name in want} == want


def test_a_name_on_what_cannot_be_inferred_stays():
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
        m (float[N] x) => (float[?] y) <float[k] t> { t = acme.Op(x) u = Exp(t) y = Neg(u) }"""
    )
    ShapeInference()(model)
    assert (shapes(model)["t"], shapes(model)["u"]) == ("[k]", "[k]")


def test_dims_that_the_user_declared_on_inputs_and_outputs_stay():
    model = infer("(float[2,3] x) => (float[rows,?] y) { t = Exp(x) y = Neg(t) }")
    assert str(model.graph.outputs[0].shape) == "[rows,None]"
    assert shapes(model)["t"] == "[2,3]"


@each_of("node", "Concat<axis = 0>(t, t)", "Slice(t, zero, one, zero)", "Concat<axis = -1>(t)")
def test_axes_of_a_scalar_are_no_error(node):
    text = f"""m (float x) => (float[?] y) <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
        t = Relu(x) y = {node}
    }}"""
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 20]>' + text)
    ShapeInference()(model)
    assert shapes(model)["t"] == "[]"


def test_the_operators_win_against_a_wrong_rank():
    text = """(float[N,1,3] x) => (float[a,b,c] y) <float[4] t, float[2,2,2,2] w> {
        t = Relu(x)
        u = Transpose(t)
        f, g = If(c) <then_branch = p () => (float[4] a, float[a,b] d) {
            a = Exp(t) d = Flatten(u) },
            else_branch = e () => (float[4] b, float[a,b] h) { b = Neg(t) h = Flatten(u) }>
        w = Flatten(f)
        y = Abs(u)
    }"""
    found = shapes(infer(text.replace("3] x", "3] x, bool c")))
    assert (found["t"], found["u"], found["f"]) == ("[N,1,3]", "[3,1,N]", "[N,1,3]")
    assert found["w"] == "[N,3]"


def test_a_slice_keeps_the_axes_that_it_does_not_cut():
    """onnx's inference knows nothing of the result if an end is not known."""
    found = shapes(
        infer("""(float[B,S] x, float[1,512,M] z) => (float[?,?,?] y) { s = Shape(x)
            a = Constant<value_ints = [1]>() b = Constant<value_ints = [2]>()
            n = Slice(s, a, b) o = Constant<value_ints = [0]>()
            t = Slice(z, o, n, a) y = Neg(t) }""")
    )
    assert found["t"].startswith("[1,unk__")
    assert found["t"].endswith(",M]")


def test_calls_of_functions_have_shapes_and_their_bodies_stay_as_they_are():
    model = infer("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (float[N,3] x) => (float[?,?] y) { t = l.F(x) y = Neg(t) }
        <domain: "l", opset_import: ["" : 20]> F (a) => (b) { c = Exp(a) b = Abs(c) }""")
    found = shapes(model)
    assert found["t"] == "[N,3]"
    assert found["c"] is None


def test_a_default_that_the_caller_may_override_implies_nothing():
    """onnx's inference takes it for a constant."""
    found = shapes(
        infer("""(float[6] x, int64[2] s) => (float[?,?] y) <int64[2] s = {2, 3}>
            { t = Reshape(x, s) y = Neg(t) }""")
    )
    assert "2" not in found["t"]
    assert "3" not in found["t"]


def test_big_weights_are_not_read():
    class Unreadable(ir.Tensor):
        def tobytes(self):
            raise AssertionError("serialised")

    model = parse("(float[N,2000] x) => (float[?,?] y) { t = MatMul(x, x) y = Neg(t) }")
    weight = Unreadable(np.zeros((2000, 3), np.float32), name="w")
    value = ir.Value(name="w", const_value=weight)
    model.graph.register_initializer(value)
    model.graph[0].replace_input_with(1, value)
    ShapeInference()(model)
    assert shapes(model)["t"] == "[N,3]"
    assert value.const_value is weight


def test_unknown_dimensions_get_the_same_names_in_every_run():
    """onnx's inference numbers them by what was there before."""
    infer(
        """(float[N] x, bool c) => (int64[?,?] y) { d = If(c) <
          then_branch = g () => (float[?] t) { t = Compress(x, k) k = Cast<to = 9>(x) },
          else_branch = h () => (float[?] e) { e = Neg(x) }>
          n = NonZero(d) y = Neg(n) }""".replace(
            "t = Compress(x, k) k = Cast<to = 9>(x)", "k = Cast<to = 9>(x) t = Compress(x, k)"
        )
    )


class SliceMore(Transformation):
    """Changes the shapes of values that stay, and does not say which."""

    def call(self, model):
        (end,) = (v for v in model.graph.initializers.values() if v.name == "end")
        end.const_value = ir.tensor(np.array([2], np.int64), name="end")
        return ir.passes.PassResult(model, modified=True)


def test_what_rules_have_found_counts_until_a_pass_changes_shapes(monkeypatch):
    """With it, inference need not run a second time over a model."""
    model = testing.parse("""(float[N,8] x) => (float[M,?] y) <int64[1] one = {1}, int64[1] end
        = {5}, int64[1] start = {0}, int64[2] target = {-1, 8}>
        { t = Reshape(x, target) i = Identity(t) s = Slice(i, start, end, one) y = Neg(s) }""")
    runs, context, infer = [], PassContext(), shape_inference.infer
    monkeypatch.setattr(
        shape_inference, "infer", lambda *a, **k: (runs.append(1), infer(*a, **k))[1]
    )

    def run(pass_):
        pass_.context = context
        runs.clear()
        assert pass_(model) is not None
        return len(runs), shapes(model).get("s")

    assert run(ShapeInference()) == (2, "[N,5]")
    run(EliminateIdentity())
    assert run(ShapeInference()) == (1, "[N,5]")
    run(SliceMore())
    assert run(ShapeInference()) == (2, "[N,2]")


@each_row("""node | times
- If(c) <then_branch = t () => (float[?] a) { a = Relu(x) }, else_branch = e () => (float[?] b)
  { b = Neg(x) }> | =1
- Loop(n, c, x) <body = b (i, d, v) => (d2, w) { d2 = Identity(d) w = Neg(v) }> | =2
""")
def test_one_run_serves_branches_and_bodies_of_loops_take_more(monkeypatch, node, times):
    runs, infer = [], shape_inference.infer
    monkeypatch.setattr(
        shape_inference, "infer", lambda *a, **k: (runs.append(1), infer(*a, **k))[1]
    )
    model = testing.parse(
        f"(float[N] x, bool c, int64 n) => (float[?] y) {{ z = {node} y = Abs(z) }}"
    )
    ShapeInference()(model)
    assert len(runs) == times
