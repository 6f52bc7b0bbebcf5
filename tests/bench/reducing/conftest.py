"""Models to reduce, and checks that look at the operators they hold."""

import onnx_ir as ir
import pytest

from onnx_passes.bench.reducing.candidates import CheckOutcome, Status
from onnx_passes.bench.reducing.parts import Boundary, Parts
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse

DIAMOND = """(float[N,4] x) => (float[N,4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}>
{ a = Abs(x) b = Neg(a) c = Mul(a, w) d = Add(b, c) e = Tanh(d) y = Relu(e) }"""


@pytest.fixture
def diamond():
    """Six nodes: 0 Abs, then 1 Neg beside 2 Mul, then 3 Add, 4 Tanh, 5 Relu."""
    return parse(DIAMOND)


@pytest.fixture
def boundary_of():
    def make(model, **given):
        return Boundary(model, OnnxRuntimeEngine(), **given)

    return make


@pytest.fixture
def parts_of(boundary_of):
    def make(model, **given):
        return Parts(model, boundary_of(model), **given)

    return make


class Operators:
    """Fails for a model that holds all of some operators."""

    reads_values = False

    def __init__(self, *wanted):
        self.wanted, self.text, self.judged = set(wanted), " ".join(wanted), []

    def judge(self, candidate, number):
        held = {node.op_type for node in candidate.model.graph}
        self.judged.append(len(candidate.model.graph))
        bad = self.wanted <= held
        return CheckOutcome(Status.BAD if bad else Status.GOOD, "found" if bad else "")


@pytest.fixture
def operators():
    return Operators


@pytest.fixture
def chain():
    """A chain of nodes of the operators given."""

    def make(*operators):
        values = [ir.val("x", ir.DataType.FLOAT, [2])]
        nodes = []
        for index, operator in enumerate(operators):
            node = ir.node(operator, [values[-1]])
            node.outputs[0].name = f"v{index}"
            node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
            node.outputs[0].shape = ir.Shape([2])
            nodes.append(node)
            values.append(node.outputs[0])
        graph = ir.Graph([values[0]], [values[-1]], nodes=nodes, opset_imports={"": 20})
        return ir.Model(graph, ir_version=10)

    return make
