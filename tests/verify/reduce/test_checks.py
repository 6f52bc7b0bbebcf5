"""Engines, passes, functions and people as checks."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.contracts import Equality
from onnx_passes.errors import EngineError, EngineUnavailableError, UsageError
from onnx_passes.passes.base import Transformation
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.testing import parse
from onnx_passes.verify.reduce import Reducer
from onnx_passes.verify.reduce.checks import AskCheck, FunctionCheck, PassCheck, RunCheck
from onnx_passes.verify.reduce.outcome import SmallerModel, Status
from onnx_passes.verify.reduce.store import CandidateStore


class Wrong:
    """An engine that is off where a model has a Tanh."""

    name = "wrong"

    def __init__(self, error=None):
        self.error = error

    def describe(self):
        return {}

    def prepare(self, model):
        changed = model.clone()
        for node in changed.graph:
            if node.op_type == "Tanh":
                if self.error is not None:
                    raise self.error
                node.op_type = "Sigmoid"
        return OnnxRuntimeEngine().prepare(changed)


def operators(found):
    return [node.op_type for node in found.model.graph]


def test_an_engine_is_held_against_another(diamond, parts_of):
    found = Reducer(parts_of(diamond), RunCheck(Wrong(), ReferenceEngine())).run()
    assert operators(found) == ["Tanh"]
    assert list(found.feeds) == ["d"]
    assert found.told.startswith("e: ")


def test_an_engine_is_held_against_golden_values(diamond, parts_of, boundary_of):
    check = RunCheck(Wrong(), boundary_of(diamond))
    assert operators(Reducer(parts_of(diamond), check).run()) == ["Tanh"]


def test_what_an_engine_refuses_is_found(diamond, parts_of):
    check = RunCheck(Wrong(EngineError("no Tanh here")))
    found = Reducer(parts_of(diamond), check).run()
    assert operators(found) == ["Tanh"]
    assert found.told == "no Tanh here"


def test_nan_of_finite_inputs_is_found(parts_of):
    model = parse("""<ir_version: 10, opset_import: ["" : 20]>
        main (float[4] x) => (float[4] y) { a = Abs(x) b = Neg(a) c = Sqrt(b) y = Tanh(c) }""")
    found = Reducer(parts_of(model), RunCheck(OnnxRuntimeEngine())).run()
    assert operators(found) == ["Sqrt"]
    assert "NaN" in found.told


def test_another_fault_does_not_count(diamond):
    check = RunCheck(Wrong(), ReferenceEngine())
    check.kind = "engine"
    feeds = {"a": np.ones((1, 4), np.float32)}
    model = parse("""<ir_version: 10, opset_import: ["" : 20]>
        main (float[1,4] a) => (float[1,4] y) { y = Tanh(a) }""")
    assert check.judge(SmallerModel(model, lambda: feeds), 1).status is Status.UNJUDGED


def test_an_engine_that_is_not_there_ends_it(diamond, parts_of):
    check = RunCheck(Wrong(EngineUnavailableError("no GPU")), ReferenceEngine())
    with pytest.raises(EngineUnavailableError):
        Reducer(parts_of(diamond), check).run()


class Breaks(Transformation):
    """Turns Neg into Abs, where an Add reads it."""

    def call(self, model):
        for node in model.graph:
            if node.op_type == "Add" and node.inputs[0].producer() is not None:
                ir.convenience.replace_all_uses_with(node.inputs[0], node.inputs[1])
        return ir.passes.PassResult(model, modified=True)


class Raises(Transformation):
    """Cannot take a Tanh."""

    def call(self, model):
        if any(node.op_type == "Tanh" for node in model.graph):
            raise KeyError("Tanh")
        return ir.passes.PassResult(model, modified=False)


def test_a_pass_that_changes_what_is_computed_is_reduced(diamond, parts_of):
    check = PassCheck(lambda: [Breaks()], OnnxRuntimeEngine(), "breaks", Equality())
    found = Reducer(parts_of(diamond), check).run()
    assert operators(found) == ["Neg", "Add"]


def test_a_pass_that_raises_is_reduced(diamond, parts_of):
    check = PassCheck(lambda: [Raises()], OnnxRuntimeEngine(), "raises")
    found = Reducer(parts_of(diamond), check).run()
    assert operators(found) == ["Tanh"]
    assert "KeyError" in found.told


def test_a_function_judges_files(diamond, parts_of):
    def fails(path):
        return any(node.op_type == "Mul" for node in ir.load(path).graph)

    with CandidateStore(diamond) as store:
        found = Reducer(parts_of(diamond), FunctionCheck(fails, store, "m:fails")).run()
    assert operators(found) == ["Mul"]


@pytest.mark.parametrize(
    ("function", "told"),
    [(lambda path: 1 / 0, "raises ZeroDivisionError"), (lambda path: "bad", "returns 'bad'")],
)
def test_a_function_that_does_not_judge_is_told(diamond, parts_of, function, told):
    with CandidateStore(diamond) as store, pytest.raises(UsageError, match=told):
        Reducer(parts_of(diamond), FunctionCheck(function, store, "m:f")).run()


def test_a_person_is_shown_each_candidate(diamond, parts_of, tmp_path):
    path = tmp_path / "debug.onnx"

    def ask(shown, number):
        assert shown == path
        return any(node.op_type == "Neg" for node in ir.load(shown).graph)

    with CandidateStore(diamond, tmp_path) as store:
        found = Reducer(parts_of(diamond), AskCheck(ask, store, path)).run()
    assert operators(found) == ["Neg"]
    assert not path.exists()
