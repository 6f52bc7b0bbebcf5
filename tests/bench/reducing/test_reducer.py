import itertools

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.bench.reducing import MODES, Boundary, Reducer, reduce, search
from onnx_passes.bench.reducing.checks import RunCheck
from onnx_passes.bench.reducing.parts import Inferred
from onnx_passes.errors import UsageError
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from tests.tables import each_of


class Sets:
    """Fails for a part that holds one of some sets of nodes."""

    def __init__(self, *culprits):
        self.culprits, self.asked = culprits, []

    def fails(self, kept):
        assert kept
        self.asked.append(kept)
        return any(c <= kept for c in self.culprits)


class Flat:
    """The parts of a model if only the number of nodes and edges is known."""

    def __init__(self, count, edges=()):
        self.nodes = list(range(count))
        self.parents = [{a for a, b in edges if b == n} for n in self.nodes]
        self.children = [{b for a, b in edges if a == n} for n in self.nodes]
        self.whole = frozenset(self.nodes)

    def grow(self, kept):
        return frozenset(kept)

    trim = grow


@each_of("mode", *MODES)
def test_a_single_node_is_found(mode):
    judge = Sets({17})
    assert search(Flat(40), judge, mode, Flat(40).whole) == {17}


def test_bisection_keeps_what_lies_between():
    assert search(Flat(40), Sets({3, 30}), "bisect", Flat(40).whole) == set(range(3, 31))


def test_a_connected_pair_takes_a_logarithmic_number_of_checks():
    chain = Flat(4096, list(itertools.pairwise(range(4096))))
    judge = Sets({1000, 1001})
    assert search(chain, judge, "auto", chain.whole) == {1000, 1001}
    assert len(judge.asked) <= 12 + 5


def test_a_whole_path_is_found_when_all_of_it_is_needed():
    chain = Flat(200, list(itertools.pairwise(range(200))))
    path = set(range(50, 70))
    assert search(chain, Sets(path), "auto", chain.whole) == path


@settings(max_examples=60)
@given(
    st.lists(st.sets(st.integers(0, 29), min_size=1, max_size=5), min_size=1, max_size=3),
    st.sampled_from(["auto", "linear"]),
)
def test_no_node_can_be_taken_out_of_a_result(culprits, mode):
    judge = Sets(*culprits)
    found = search(Flat(30), judge, mode, Flat(30).whole)
    assert any(culprit <= found for culprit in culprits)
    assert not any(any(c <= found - {node} for c in culprits) for node in found)


ENGINE = OnnxRuntimeEngine()
OPERATORS = ("Abs", "Sin", "Tanh", "Neg", "Cos", "Relu", "Sqrt")


@pytest.fixture
def golden(chain):
    """Values of a chain whose fifth node is a Cos; ours has a Sin there."""
    boundary = Boundary(chain(*OPERATORS), ENGINE)
    names = ["x", *(f"v{i}" for i in range(len(OPERATORS)))]
    boundary.golden = {"x": np.array([0.3, 0.4], np.float32)}
    return {name: boundary.value(name) for name in names}


@pytest.fixture
def wrong(chain):
    return chain("Abs", "Sin", "Tanh", "Neg", "Sin", "Relu", "Sqrt")


def test_the_node_that_is_wrong_is_found(wrong, golden):
    boundary = Boundary(wrong, ENGINE, golden)
    found = reduce(wrong, RunCheck(ENGINE, boundary), boundary)
    assert [node.op_type for node in found.model.graph] == ["Sin"]
    assert found.model.graph.inputs[0].name == "v3"
    assert found.good is not None


def test_the_node_that_makes_nan_is_found(chain):
    model = chain("Abs", "Neg", "Sqrt", "Tanh", "Relu")
    boundary = Boundary(model, ENGINE, {"x": np.array([1, 2], np.float32)})
    found = reduce(model, RunCheck(ENGINE), boundary)
    assert [node.op_type for node in found.model.graph] == ["Sqrt"]


def test_nothing_is_judged_twice(parts_of, chain, operators):
    check = operators("Abs", "Neg", "Tanh")
    model = chain(*["Relu", "Abs", "Sin", "Neg", "Cos", "Tanh", "Relu"] * 2)
    reducer = Reducer(parts_of(model), check)
    reducer.run()
    keys = list(reducer.ledger.seen)
    assert len(check.judged) == len(keys) == len(set(keys))


def test_a_check_that_always_fails_is_told(diamond, boundary_of, operators):
    with pytest.raises(UsageError, match=r"fails on every model, even .* a single Identity"):
        reduce(diamond, operators(), boundary_of(diamond))


def test_answers_are_replayed(parts_of, diamond, operators, tmp_path):
    file = tmp_path / "replay.json"
    first = Reducer(parts_of(diamond), operators("Neg", "Add"), replay=file).run()
    check = operators("Neg", "Add")
    again = Reducer(parts_of(diamond), check, replay=file).run()
    assert check.judged == []
    assert (again.checks, again.replayed) == (0, first.checks)
    assert again.after == first.after == 2


def test_answers_to_other_questions_are_refused(parts_of, diamond, chain, operators, tmp_path):
    file = tmp_path / "replay.json"
    Reducer(parts_of(diamond), operators("Neg"), replay=file).run()
    with pytest.raises(UsageError, match="answers are to another check"):
        Reducer(parts_of(diamond), operators("Add"), replay=file)
    with pytest.raises(UsageError, match="answers are to another model"):
        Reducer(parts_of(chain("Neg", "Abs")), operators("Neg"), replay=file)
    file.write_text("[1, 2]")
    with pytest.raises(UsageError, match="holds no answers"):
        Reducer(parts_of(diamond), operators("Neg"), replay=file)


# What a model does not declare is inferred, without its weights.


MODEL = """(float[N,4] x) => (float[N,4] y) <int64[2] to = {2, -1}>
{ a = Abs(x) b = Shape(a) r = Reshape(a, to) n = Neg(r) y = Tanh(a) }"""


def described(model, name):
    value = next(v for node in model.graph for v in node.outputs if v.name == name)
    return value, Inferred(model).of(value)


def test_types_and_shapes_are_inferred():
    model = parse(MODEL)
    _, (type_, shape) = described(model, "a")
    assert type_.dtype is ir.DataType.FLOAT
    assert list(shape) == ["N", 4]
    assert described(model, "b")[1][0].dtype is ir.DataType.INT64
    assert described(model, "r")[1][1][0] == 2  # by the value of a small initializer


def test_what_is_declared_comes_first():
    model = parse(MODEL)
    value, _ = described(model, "a")
    value.shape = ir.Shape(["batch", None])
    assert list(described(model, "a")[1][1]) == ["batch", 4]
    value.shape = ir.Shape([7, 4])
    assert list(described(model, "a")[1][1]) == [7, 4]


def test_sizes_given_to_an_input_replace_names_within():
    model = parse(MODEL)
    value, _ = described(model, "a")
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["N", 4])
    model.graph.inputs[0].shape = ir.Shape([3, 4])
    assert list(described(model, "a")[1][1]) == [3, 4]


def test_an_unknown_operator_leaves_its_own_results_unknown():
    model = parse(MODEL)
    next(n for n in model.graph if n.op_type == "Neg").domain = "nobody"
    model.graph.opset_imports["nobody"] = 1
    assert described(model, "n")[1] == (None, None)
    assert described(model, "a")[1][0] is not None
