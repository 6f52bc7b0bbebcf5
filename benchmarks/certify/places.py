"""Rules that are wrong in one place alone: one rank, type, opset, attribute or breakpoint.

Each removes an Identity behind an operator, which is right, but for the place that is named.
A verifier refutes it only if it looks there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from benchmarks.certify.mutants import Mutant
from onnx_passes.certifying.coverage import OPSETS, attribute_names
from onnx_passes.certifying.template_models import TYPES
from onnx_passes.ops.input_hints import Use
from onnx_passes.ops.operator_class import find

Where: TypeAlias = Callable[[Any, ir.Node], bool]
"""Says of a match, by its context and the operator's node, whether it is the place."""

_ALL = range(5)
RANKS: Mapping[str, Sequence[Sequence[int]]] = {
    "Neg": [_ALL],
    "Add": [_ALL, _ALL],
    "Where": [_ALL, _ALL, _ALL],
    "MatMul": [range(1, 5), range(1, 5)],
    "Transpose": [_ALL],
    "Softmax": [range(1, 5)],
    "Concat": [range(1, 5), range(1, 5)],
}
"""Ranks that the standard admits for each operand, by operator."""

ATTRIBUTES = (
    *("Conv", "MaxPool", "AveragePool", "Gemm", "Softmax", "Transpose", "Concat", "Flatten"),
    *("LeakyRelu", "Elu", "HardSigmoid", "ArgMax", "ReduceSum", "DepthToSpace", "Gather"),
)
"""Operators whose attributes are a place each; given, for one that may be left out."""

SKIPPED = frozenset({"MaxPool.storage_order", "MaxPool.dilations", "AveragePool.dilations"})
"""Attributes whose values the generator does not know, or that need a second output."""

_ARITY = {"Add": 2, "Where": 3, "MatMul": 2, "Concat": 2, "Conv": 2, "Gemm": 3, "Gather": 2}
BREAKPOINTS = (
    *("Relu", "Abs", "Sign", "LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Round"),
    *("HardSigmoid", "HardSwish", "Floor", "Ceil", "Shrink"),
)
_NEWER = 13


def place_mutants() -> list[Mutant]:
    """Return all of them, in order."""
    return [*_ranks(), *_types(), *_opsets(), *_attributes(), *_breakpoints()]


def _ranks() -> Iterator[Mutant]:
    for op_type, operands in RANKS.items():
        for index, ranks in enumerate(operands):
            for rank in ranks:
                place = f"operand {index} of rank {rank}"
                yield _mutant(op_type, place, _of_rank(index, rank))


def _of_rank(index: int, rank: int) -> Where:
    def here(context: Any, node: ir.Node) -> bool:
        value = node.inputs[index]
        return value is not None and value.shape is not None and len(value.shape) == rank

    return here


def _types() -> Iterator[Mutant]:
    # The engine's CPU provider has next to no kernel for bfloat16.
    for dtype in sorted(set(TYPES) - {ir.DataType.BFLOAT16}):
        yield _mutant("Transpose", f"type {dtype.name}", _of_type(dtype))


def _of_type(dtype: ir.DataType) -> Where:
    def here(context: Any, node: ir.Node) -> bool:
        return node.inputs[0] is not None and node.inputs[0].dtype == dtype

    return here


def _opsets() -> Iterator[Mutant]:
    for opset in sorted(set(OPSETS)):
        yield _mutant("Exp", f"opset {opset}", _of_opset(opset))


def _of_opset(opset: int) -> Where:
    return lambda context, _: context.model.opset_imports[""] == opset


def _attributes() -> Iterator[Mutant]:
    for op_type in ATTRIBUTES:
        for name, required in attribute_names("", op_type, max(OPSETS)).items():
            if f"{op_type}.{name}" in SKIPPED:
                continue
            yield _mutant(op_type, f"{name} is given", _given(name))
            if not required:
                yield _mutant(op_type, f"{name} is left out", _left_out(name))


def _given(name: str) -> Where:
    return lambda _, node: name in node.attributes


def _left_out(name: str) -> Where:
    return lambda _, node: name not in node.attributes


def _breakpoints() -> Iterator[Mutant]:
    """Yield rules that are wrong where an operand is one number, which inputs must hit."""
    for op_type in BREAKPOINTS:
        operator = find("", op_type)
        assert operator is not None
        x = ir.val("x", dtype=ir.DataType.FLOAT, shape=[2])
        use = Use(ir.node(op_type, [x]), 0, np.random.default_rng(0))
        for number in sorted(set(operator.breakpoints(use))):
            yield _at_number(op_type, float(number))


def _at_number(op_type: str, number: float) -> Mutant:
    def check(context: Any, x: ir.Value, **_: Any) -> bool:
        newer = context.model.opset_imports[""] >= _NEWER
        return newer and x.dtype == ir.DataType.FLOAT

    def rewrite(op: Any, x: ir.Value, made: ir.Value) -> Any:
        point, one = (
            op.Constant(value=ir.tensor(np.float32(n).reshape(()))) for n in (number, 1.0)
        )
        return op.Where(op.Equal(x, point), op.Add(made, one), made)

    return _removing(op_type, f"x is {number:g}", rewrite, check)


def _mutant(op_type: str, place: str, here: Where) -> Mutant:
    """Return a rule that is wrong in a place: it gives the shape of what it should give."""

    def check(context: Any, made: ir.Value, **_: Any) -> bool:
        node = made.producer()
        assert node is not None
        here_now.append(here(context, node))
        return True

    def rewrite(op: Any, made: ir.Value, **_: Any) -> Any:
        return op.Shape(made) if here_now[-1] else made

    here_now: list[bool] = []
    return _removing(op_type, place, rewrite, check)


def _removing(op_type: str, place: str, rewrite: Any, check: Any) -> Mutant:
    """Return a rule over an Identity behind an operator."""
    patterns: dict[int, Callable[..., Any]] = {
        1: lambda op, x: op.Identity(getattr(op, op_type)(x, _outputs=["made"])),
        2: lambda op, x, y: op.Identity(getattr(op, op_type)(x, y, _outputs=["made"])),
        3: lambda op, x, y, z: op.Identity(getattr(op, op_type)(x, y, z, _outputs=["made"])),
    }
    name = f"{op_type}, wrong if {place}"
    pattern = patterns[_ARITY.get(op_type, 1)]
    rule = RewriteRule(pattern, rewrite, check, name=name, remove_nodes=False)
    return Mutant(op_type, place, rule)
