"""A new operator is one class: three that nothing here knows, at once usable everywhere."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.ops import operator_class
from onnx_passes.ops.call import Operands, constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.intervals import UNBOUNDED
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics
from onnx_passes.ops.elementwise import Elementwise
from onnx_passes.ops.evaluation import evaluate
from onnx_passes.ops.input_hints import Use, between
from onnx_passes.ops.node_queries import admitted, flops_of, range_of
from onnx_passes.ops.operator_class import Algebra
from onnx_passes.ops.reduction import Reduce
from onnx_passes.ops.semantics import Scalar, TypedPrimitives
from onnx_passes.passes.analysis.cost import cost_of
from onnx_passes.passes.analysis.value_ranges import ranges_of

pytest.importorskip("z3")
DOMAIN = "com.example"


@pytest.fixture
def told(monkeypatch):
    """Three operators, forgotten again after the test."""
    assert [*operator_class.operators()], (
        "those that are imported later would be forgotten, too"
    )
    monkeypatch.setattr(
        operator_class,
        "_OPERATORS",
        {k: list(v) for k, v in operator_class._OPERATORS.items()},
    )

    class HardTanh(Elementwise):
        domain = DOMAIN
        algebra = Algebra(idempotent=True, monotone={0: 1})
        kinks = (-1.0, 1.0)

        def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
            return a.clip(x, -1.0, 1.0)

    class Logit(Elementwise):
        domain, domain_of = DOMAIN, ((0, between(0.1, 0.9)),)
        algebra = Algebra(monotone={0: 1})

        def formula(self, a: TypedPrimitives, x: Scalar) -> Scalar:
            return a.log(a.div(x, a.sub(1.0, x)))

    class ReduceRange(Reduce):
        domain = DOMAIN

        def row(self, call, a, terms):
            return a.sub(a.fold("max", terms), a.fold("min", terms))

    return HardTanh, Logit, ReduceRange


def model(op_type, shape=(2, 3), made=(2, 3)):
    x = ir.val("x", dtype=ir.DataType.FLOAT, shape=list(shape))
    node = ir.node(op_type, [x], domain=DOMAIN)
    node.outputs[0].name, node.outputs[0].dtype = "y", ir.DataType.FLOAT
    node.outputs[0].shape = ir.Shape(list(made))
    imports = {"": 21, DOMAIN: 1}
    graph = ir.Graph([x], node.outputs, nodes=[node], opset_imports=imports, name="g")
    return ir.Model(graph, ir_version=10)


def run(graph, array, semantics):
    feeds = {"x": constant(array, ir.DataType.FLOAT, semantics)}
    return evaluate(graph, feeds, semantics)["y"].data


X = np.linspace(0.15, 0.85, 6, dtype=np.float32).reshape(2, 3)


def test_they_are_computed_with_bounds_on_rounding(told):
    expected = {
        "HardTanh": np.clip(3 * X, -1, 1),
        "Logit": np.log(X / (1 - X)),
        "ReduceRange": [[X.max() - X.min()]],
    }
    for op_type, wanted in expected.items():
        graph, x = model(op_type).graph, 3 * X if op_type == "HardTanh" else X
        found = run(graph, x, ConcreteSemantics())
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        bounds = run(graph, x, RoundingSemantics())
        assert (abs(found - bounds["value"]) <= bounds["error"]).all()


def test_their_ranges_and_costs_are_known(told):
    for op_type, wanted, operations in (
        ("HardTanh", (-1, 1), 12),
        ("Logit", (-2.1972, 2.1972), 18),
    ):
        low, high = ranges_of(model(op_type), {"x": (0.1, 0.9)}, {}).intervals["y"]
        if op_type == "HardTanh":
            low, high = ranges_of(model(op_type), {"x": (-9, 9)}, {}).intervals["y"]
        assert (low, high) == pytest.approx(wanted, abs=1e-3)
        assert cost_of(model(op_type), {}).flops == operations
    node = next(iter(model("ReduceRange", made=(1, 1)).graph))
    operands = Operands(node, lambda value: (0.1, 0.9), lambda value: None)
    assert range_of(operands) == pytest.approx((-0.8, 0.8), abs=1e-3)
    assert flops_of(operands) == 6 + 6 + 1
    unknown = next(iter(model("Other").graph))
    assert range_of(Operands(unknown, lambda value: (0.1, 0.9), lambda v: None)) == UNBOUNDED


def test_the_prover_evaluates_them(told):
    from onnx_passes.ops.domains.bitvectors import z3
    from onnx_passes.ops.domains.reals import RealSemantics
    from onnx_passes.ops.evaluation import unknowns

    semantics = RealSemantics()
    graph = model("HardTanh", (1,), (1,)).graph
    feeds = unknowns(graph.inputs, semantics)
    (once,) = evaluate(graph, feeds, semantics)["y"].data
    feeds = {"x": evaluate(graph, feeds, semantics)["y"]}
    (twice,) = evaluate(graph, feeds, semantics)["y"].data
    solver = z3().Solver()
    solver.add(once != twice)
    assert solver.check() == z3().unsat


def test_inputs_are_drawn_where_they_mean_something(told):
    use = Use(next(iter(model("Logit").graph)), 0, np.random.default_rng(0))
    assert admitted(use) == between(0.1, 0.9)
    assert operator_class.find(DOMAIN, "HardTanh").breakpoints(use) == (-1.0, 1.0)
