"""Suspects are the nodes at fault, and count only if the check fails on them."""

import numpy as np
import pytest

from onnx_passes.contracts import Tolerance
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.reduce import Boundary, Reducer, reduce
from onnx_passes.verify.reduce.checks import RunCheck
from onnx_passes.verify.reduce.localize import divergent, named
from onnx_passes.verify.reduce.outcome import CheckOutcome, Status
from onnx_passes.verify.reduce.parts import Parts

ENGINE = OnnxRuntimeEngine()
OPERATORS = ("Abs", "Sin", "Tanh", "Neg", "Cos", "Relu", "Sqrt")


@pytest.fixture
def golden(chain):
    """Values of a chain whose fifth node is a Cos; ours has a Sin there."""
    boundary = Boundary(chain(*OPERATORS), ENGINE)
    names = ["x", *(f"v{i}" for i in range(len(OPERATORS)))]
    feeds = {"x": np.array([0.3, 0.4], np.float32)}
    boundary.golden = feeds
    return {name: boundary.value(name) for name in names}


@pytest.fixture
def wrong(chain):
    return chain("Abs", "Sin", "Tanh", "Neg", "Sin", "Relu", "Sqrt")


def test_the_node_that_is_wrong_is_found_with_one_run(wrong, golden):
    boundary = Boundary(wrong, ENGINE, golden)
    found = reduce(wrong, RunCheck(ENGINE, boundary), boundary)
    assert [node.op_type for node in found.model.graph] == ["Sin"]
    assert found.model.graph.inputs[0].name == "v3"
    assert found.checks == 3  # the whole, the suspect, and one beside that has to be good
    assert found.good is not None


def test_the_model_is_as_before_when_its_values_were_looked_at(wrong, golden):
    parts = Parts(wrong, Boundary(wrong, ENGINE, golden))
    assert divergent(parts, ENGINE, Tolerance()) == [4]
    assert [value.name for value in wrong.graph.outputs] == ["v6"]
    assert not wrong.graph.node(4).outputs[0].is_graph_output()


def test_without_a_contract_the_node_that_adds_most_is_told(wrong, golden):
    noise = {n: a * np.float32(1 + 1e-6) if n == "v0" else a for n, a in golden.items()}
    parts = Parts(wrong, Boundary(wrong, ENGINE, noise))
    assert divergent(parts, ENGINE) == [4]


def test_a_suspect_that_does_not_fail_is_let_go(parts_of, chain, operators):
    model = chain("Abs", "Neg", "Tanh", "Sin")
    for index, node in enumerate(model.graph):
        node.name = f"n{index}"
    check = operators("Neg", "Sin")
    judge = check.judge

    def tell(candidate, number):
        outcome = judge(candidate, number)
        return CheckOutcome(outcome.status, "Name:'n0' failed" if outcome.bad else "")

    check.judge = tell
    found = Reducer(parts_of(model), check).run()
    assert check.judged[:2] == [4, 1]
    assert [node.op_type for node in found.model.graph] == ["Neg", "Sin"]


def test_a_log_that_names_many_nodes_says_nothing(parts_of, diamond):
    for index, node in enumerate(diamond.graph):
        node.name = f"n{index}"
    parts = parts_of(diamond)
    assert named(
        parts, CheckOutcome(Status.BAD, log=b"while running (n3), n4: no kernel")
    ) == [
        3,
        4,
    ]
    assert named(parts, CheckOutcome(Status.BAD, log=b"n0 n1 n2 n3")) == []


def test_the_first_node_that_makes_nan_is_found(chain):
    model = chain("Abs", "Neg", "Sqrt", "Tanh", "Relu")
    boundary = Boundary(model, ENGINE, {"x": np.array([1, 2], np.float32)})
    found = reduce(model, RunCheck(ENGINE), boundary)
    assert [node.op_type for node in found.model.graph] == ["Sqrt"]
    assert found.checks == 3
