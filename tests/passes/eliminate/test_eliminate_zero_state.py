from onnx_passes.passes.eliminate.eliminate_zero_state import EliminateZeroState
from onnx_passes.testing import parse
from tests.tables import cases_in, each_of

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(operator, made, directions=1, inputs=""):
    """A layer of 2 hidden units over 3 features whose state is made from its input."""
    rows, state = 2 * GATES[operator], "h, h" if operator == "LSTM" else "h"
    direction = "bidirectional" if directions == 2 else "forward"
    return f"""(float[T,N,3] x, float[{directions},{rows},3] w, float[{directions},{rows},2] r
      {inputs}) => (float[T,{directions},N,2] y)
      <int64[1] d = {{{directions}}}, int64[1] e = {{2}}, int64[1] i = {{1}}> {{
      s = Shape(x) n = Gather(s, i) t = Concat<axis = 0>(d, n, e) {made}
      y = {operator}<hidden_size = 2, direction = "{direction}">(x, w, r, , , {state}) }}"""


def states(model):
    (node,) = (node for node in model.graph if node.op_type in GATES)
    return node.inputs[3:]


FILLED = "h = ConstantOfShape(t)"


@each_of("operator", *GATES)
@each_of("directions", 1, 2)
@each_of(
    "made",
    FILLED,
    "h = ConstantOfShape<value = float[1] {0}>(t)",
    "z = Constant<value = float {0}>() h = Expand(z, t)",
    """l = Concat<axis = 0>(d, n, e) a = Concat<axis = 0>(d, d, n, e)
        f = ConstantOfShape(a) o = Constant<value_int = 0>() h = Gather(f, o)""",
    """l = Concat<axis = 0>(e, n, e) f = ConstantOfShape(l)
        o = Constant<value_ints = [0]>() h = Slice(f, o, d, o)""",
    """o = Constant<value_ints = [0]>() z = Constant<value = float {0}>()
        l = Concat<axis = 0>(n, e) p = Expand(z, l) q = Unsqueeze(p, o) f = ConstantOfShape(t)
        b = Concat<axis = 0>(q, q, f) h = Slice(b, o, d, o)""",
)
def test_a_state_of_zeros_for_each_batch(operator, directions, made, rewrites):
    assert states(rewrites(layer(operator, made, directions))) == ()


test_cases = cases_in(lambda body: layer("GRU", body))("""
h = ConstantOfShape<value = float[1] {1}>(t)
h = ConstantOfShape<value = float[1] {-0.0}>(t)
z = Constant<value = float {0.5}>() h = Expand(z, t)
f = ConstantOfShape(t) h = Exp(f)
z = ConstantOfShape(t) f = Exp(z) b = Concat<axis = 0>(z, f) h = Slice(b, i, e)
""")


def test_leaves_a_state_that_callers_give_alone(leaves_alone):
    leaves_alone(layer("GRU", "h = Identity(u)", inputs=", float[1,N,2] u"))


def test_one_of_two_states_stays():
    model = parse(layer("LSTM", FILLED, inputs=", float[1,N,2] u"))
    (node,) = (node for node in model.graph if node.op_type == "LSTM")
    node.replace_input_with(6, model.graph.inputs[3])
    EliminateZeroState()(model)
    assert [value and value.name for value in states(model)] == [None, None, None, "u"]
