"""Sizes that a model takes are found by what its nodes refuse."""

import re

import numpy as np

from onnx_passes.errors import EngineError
from onnx_passes.runtime.inputs import InputSearch
from onnx_passes.runtime.inputs.substitutes import MOST
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, each_row

# Shapes behind such nodes are known to an engine alone.
HIDDEN = """shape = Shape(x) real = Cast<to = 1>(shape) square = Mul(real, real)
    root = Sqrt(square) back = Cast<to = 7>(root) hidden = Reshape(x, back) """

WINDOW = ("float[batch, 1, time] x", "", {"w": (2, 1, 300)}, "y = Conv<strides = [100]>(x, w)")


def build(parse, inputs, constants, shapes, nodes, *, hidden=False):
    declared = "".join(f", float{list(shape)} {name}" for name, shape in shapes.items())
    if hidden:
        nodes = HIDDEN + re.sub(r"\bx\b", "hidden", nodes)
    return parse(
        f"g ({inputs}{declared}) => (float y) <{constants}> {{ {nodes} }}",
        opset=17,
        ir_version=8,
        **{name: np.full(shape, 0.1, np.float32) for name, shape in shapes.items()},
    )


@each_of("hidden", False, True)
@each_row("""inputs | constants | shapes | nodes
reflected: float[batch, 1, time] x | int64[6] pads = {0, 0, 90, 0, 0, 90} | ={'w': (2, 1, 256)}
  | p = Pad<mode = "reflect">(x, pads) y = Conv<strides = [128]>(p, w)
window: =WINDOW[0] | =WINDOW[1] | =WINDOW[2] | =WINDOW[3]
fixed length: float[batch, time] x | int64[1] from = {60}, int64[1] to = {180}, int64[1] axis =
  {1}, int64[3] target = {0, 12, 10} | ={} | cut = Slice(x, from, to, axis) y = Reshape(cut,
  target)
no remainder: float[a, b] x | int64[3] target = {-1, 80, 3} | ={} | y = Reshape(x, target)
flattened: float[batch, 1, height, width] x | ='' | ={'w': (2, 1, 5, 5), 'm': (128, 3)}
  | a = Conv<strides = [3, 3]>(x, w) b = Flatten(a) y = Gemm(b, m)
table: float[batch, time] x | int64 axis = {1}, int64 zero = {0}, int64 one = {1}, int64[1]
  from = {20}, int64[1] to = {84}, int64[1] first = {0}, int64[3] target = {-1, 8, 32}
  | ={'table': (130, 4)} | s = Shape(x) n = Gather(s, axis) r = Range(zero, n, one)
  p = Gather(table, r) cut = Slice(p, from, to, first) y = Reshape(cut, target)
frames: float[batch, 1, time] x | int64[2] target = {0, 220} | ={'w': (22, 1, 400)}
  | f = Conv<strides = [160]>(x, w) y = Reshape(f, target)
states: float[batch, 4, time] x, float[1, one, 8] h, float[1, other, 8] c | =''
  | ={'w': (1, 32, 4), 'r': (1, 32, 8)} | t = Transpose<perm = [2, 0, 1]>(x)
  y, yh, yc = LSTM<hidden_size = 8>(t, w, r, , , h, c)
""")
def test_sizes_are_found(parse, inputs, constants, shapes, nodes, hidden):
    model = build(parse, inputs, constants, shapes, nodes, hidden=hidden)
    for value in model.graph.outputs:
        value.shape = None
    search = InputSearch(model)
    with OnnxRuntimeEngine(optimization="none").prepare(model) as session:
        found = search.search(session)
        assert found is not None, search.failure
        for feeds in found.samples:
            session.run(feeds)
    assert len(search.tried) < MOST / 2
    assert "time" not in inputs or "time=" in found.text


def test_samples_have_sizes_of_their_own_where_the_model_runs_on_them(parse):
    model = build(parse, *WINDOW, hidden=True)
    model.graph.outputs[0].shape = None
    with OnnxRuntimeEngine().prepare(model) as session:
        found = InputSearch(model).search(session)
    assert len({feeds["x"].shape[-1] for feeds in found.samples}) == 3
    assert {len(feeds["x"]) for feeds in found.samples} == {1, 2}, "an edge has size 1"
    assert " or " in found.text


class Refuses:
    """Runs on no size; the message is that of ONNX Runtime."""

    def __init__(self):
        self.runs = 0

    def run(self, feeds, names=None):
        self.runs += 1
        shape = ",".join(map(str, feeds["x"].shape))
        raise EngineError(f"no: {{{shape}}}", where="  --> node of type Conv")


def test_the_search_ends_after_a_number_of_runs(parse):
    engine, search = Refuses(), InputSearch(build(parse, *WINDOW, hidden=True))
    assert search.search(engine) is None
    assert engine.runs <= MOST
    assert "out of time" not in search.failure


def test_what_refuses_is_said_in_numbers_with_the_line_to_write(parse):
    search = InputSearch(build(parse, *WINDOW))
    search.search(Refuses())
    assert "the node that refuses is Conv y: " in search.failure
    assert '-s \'reference.dims={"batch": 2, "time": ' in search.failure


def test_what_time_stops_is_said(parse, monkeypatch):
    monkeypatch.setattr("onnx_passes.runtime.inputs.substitutes.SECONDS", 0.0)
    search = InputSearch(build(parse, *WINDOW, hidden=True))
    search.search(Refuses())
    assert len(search.tried) == 1
    assert "out of time after 0 s" in search.failure


def test_sizes_of_the_user_stay(parse):
    search = InputSearch(build(parse, *WINDOW, hidden=True), dims={"batch": 3})
    search.search(Refuses())
    assert not any("batch" in text for text, _ in search.tried)
    assert '{"batch": 3, "time": ' in search.failure
