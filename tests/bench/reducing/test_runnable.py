"""The values of a model that an engine refuses to run."""

import numpy as np
import pytest

from onnx_passes.bench.reducing import reduce
from onnx_passes.bench.reducing.checks import RunCheck
from onnx_passes.bench.reducing.parts import Boundary, run_what_runs
from onnx_passes.errors import EngineUnavailableError
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from tests.tables import each_of

HEAD = '<ir_version: 9, opset_import: ["" : 18]> main'
BAD = f"""{HEAD} (float[2,3] x) => (float[N] y) <int64[1] to = {{4}}>
{{ a = Relu(x) b = Abs(a) r = Reshape(b, to) n = Neg(r) side = Exp(a) y = Tanh(n) }}"""
TWO = f"""{HEAD} (float[2,3] x) => (float[N] y, float[M] z, float[2,3] s)
<int64[1] to = {{4}}>
{{ a = Relu(x) y = Reshape(a, to) b = Abs(a) z = Reshape(b, to) s = Neg(b) }}"""
NONE = f"{HEAD} (float[2,3] x) => (float[N] y) <int64[1] to = {{4}}> {{ y = Reshape(x, to) }}"
FEEDS = {"x": np.arange(-3, 3, dtype=np.float32).reshape(2, 3)}


@each_of(
    "text, names",
    (BAD, {"a", "b", "side"}),
    (TWO, {"a", "b", "s"}),
    (NONE, set()),
    ids=["one", "two", "the first"],
)
def test_all_that_depends_on_no_bad_node_is_computed(text, names):
    found = run_what_runs(parse(text), OnnxRuntimeEngine(), FEEDS)
    assert found.keys() == names
    if "b" in names:
        np.testing.assert_array_equal(found["b"], np.maximum(FEEDS["x"], 0))


def test_the_model_stays_as_it_is():
    model = parse(BAD)
    run_what_runs(model, OnnxRuntimeEngine(), FEEDS)
    assert [node.op_type for node in model.graph] == [
        *("Relu", "Abs", "Reshape", "Neg", "Exp", "Tanh")
    ]
    assert [value.name for value in model.graph.outputs] == ["y"]


def test_a_reshape_that_does_not_fit_is_what_is_left():
    model, engine = parse(BAD), OnnxRuntimeEngine()
    found = reduce(model, RunCheck(engine), Boundary(model, engine))
    assert [node.op_type for node in found.model.graph] == ["Reshape"]


class Compiler:
    """An engine that compiles all but NonZero, and executes nothing."""

    name = "compiler"

    def prepare(self, model):
        from contextlib import nullcontext

        from onnx_passes.errors import EngineError
        from onnx_passes.runtime.tensorrt.engine import BuiltModel

        if any(node.op_type == "NonZero" for node in model.graph):
            raise EngineError("NonZero is not supported")
        return nullcontext(BuiltModel(b"", "there is no GPU"))


def test_a_compiler_that_executes_nothing_judges_what_it_refuses():
    model = parse(f"{HEAD} (float[2,3] x) => (int64[2,N] y) {{ a = Abs(x) y = NonZero(a) }}")
    found = reduce(model, RunCheck(Compiler()), Boundary(model, OnnxRuntimeEngine()))
    assert [node.op_type for node in found.model.graph] == ["NonZero"]


def test_a_compiler_that_takes_the_whole_model_says_that_nothing_was_run():
    model = parse(f"{HEAD} (float[2,3] x) => (float[2,3] y) {{ y = Abs(x) }}")
    with pytest.raises(EngineUnavailableError, match="built, not executed"):
        reduce(model, RunCheck(Compiler()), Boundary(model, OnnxRuntimeEngine()))
