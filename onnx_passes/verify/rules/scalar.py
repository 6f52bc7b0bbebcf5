"""The scalar argument: a proof on single elements that covers every rank and size.

If every node is pointwise, each commutes with every map of indices, broadcasting included.
Element ``i`` of an output is then one scalar function of the operands' elements at ``i``. The
shapes of the operands that the output depends on broadcast to its shape. So two such graphs
are equal for every rank and size if the scalar functions are equal and the sets of operands
are, because broadcasting is determined by the set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.semantics import Semantics, scalars
from onnx_passes.verify.rules.pairs import ModelPair
from onnx_passes.verify.rules.proof import Coverage


@dataclass(frozen=True, slots=True)
class Reach:
    """What the shape of a value depends on.

    Attributes:
        operands: Inputs, and shared constants, that broadcast into it.
        rank: Rank that constants of one element lend it.
        bounds: Inputs used as a bound of Clip, which must be scalars.
    """

    operands: frozenset[str] = frozenset()
    rank: int = 0
    bounds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ScalarArgument:
    """A pair of pointwise graphs, reduced to scalars.

    Attributes:
        pair: The graphs.
        coverage: What a proof on scalars covers.
        shared: Constants of more than one element that both sides have, taken as unknowns.
        filled: Constants of more than one element that are all the same number.
    """

    pair: ModelPair
    coverage: Coverage
    shared: Mapping[str, ir.DataType] = field(default_factory=dict)
    filled: Mapping[str, ir.TensorProtocol] = field(default_factory=dict)

    def unknowns(self, semantics: Semantics) -> dict[str, Tensor]:
        """Return one unknown scalar per input and shared constant, and those known."""
        typed = {str(v.name): v.dtype for v in self.pair.inputs if v.dtype is not None}
        unknown = {
            name: Tensor(scalars([semantics.variable(name, dtype)], ()), dtype)
            for name, dtype in {**typed, **self.shared}.items()
        }
        known = {
            name: constant(tensor.numpy().reshape(-1)[:1].reshape(()), tensor.dtype, semantics)
            for name, tensor in self.filled.items()
        }
        return {**unknown, **known}


def scalar_argument(pair: ModelPair, *, numbers: bool = False) -> ScalarArgument | None:
    """Return the pair reduced to scalars, or None where it is not pointwise throughout.

    Args:
        pair: The graphs.
        numbers: Whether constants of several elements that are all the same are that number,
            instead of unknowns; None where there are no such constants.
    """
    filled = _filled(pair) if numbers else {}
    if numbers and not filled:
        return None
    shared = {k: v for k, v in pair.shared_constants.items() if k not in filled}
    whole = {**shared, **{name: t.dtype for name, t in filled.items()}}
    before, after = (_reach(m, whole) for m in (pair.before, pair.after))
    if before is None or after is None:
        return None
    conditions = dict.fromkeys(pair.constants())
    for name, tensor in filled.items():
        number = tensor.numpy().reshape(-1)[0]
        conditions[f"constant {name} = {number} in each element"] = None
    least_rank = 0
    for old, new in zip(before, after, strict=True):
        for name in sorted(new.bounds - old.bounds):
            conditions[f"{name} is a scalar"] = None
        scalar_only = old.bounds | new.bounds
        left, right = old.operands - scalar_only, new.operands - scalar_only
        for names, side in ((left - right, "original"), (right - left, "rewritten")):
            for name in sorted(names):
                text = (
                    f"{name}, which only the {side} graph reads, does not enlarge the output"
                )
                conditions[text] = None
        if old.rank != new.rank:
            least_rank = max(least_rank, old.rank, new.rank)
    if least_rank:
        conditions[f"the inputs have rank {least_rank} or more"] = None
    return ScalarArgument(
        pair, Coverage(True, "all ranks and sizes", tuple(conditions)), dict(shared), filled
    )


def _filled(pair: ModelPair) -> dict[str, ir.TensorProtocol]:
    """Return the constants of several elements that are one number, where names are clear."""
    found: dict[str, ir.TensorProtocol] = {}
    for model in (pair.before, pair.after):
        for name, value in model.graph.initializers.items():
            tensor = value.const_value
            if tensor is None or tensor.size <= 1 or value.is_graph_input():
                continue
            array = tensor.numpy().reshape(-1)
            one = bool((array == array[0]).all())
            if not one or (name in found and found[name].numpy().flat[0] != array[0]):
                return {}
            found[name] = tensor
    return found


def _reach(model: ir.Model, shared: Mapping[str, ir.DataType]) -> list[Reach] | None:
    graph = model.graph
    known: dict[ir.Value, Reach] = {v: Reach(frozenset([str(v.name)])) for v in graph.inputs}
    for name, value in graph.initializers.items():
        if value.is_graph_input():
            continue
        if name in shared:
            known[value] = Reach(frozenset([name]))
        elif value.const_value is not None and value.const_value.size == 1:
            known[value] = Reach(rank=len(value.const_value.shape))
    for node in graph:
        reach = _node_reach(node, known)
        if reach is None:
            return None
        known[node.outputs[0]] = reach
    outputs = [known.get(o) for o in graph.outputs]
    return None if None in outputs else [r for r in outputs if r is not None]


def _node_reach(node: ir.Node, known: Mapping[ir.Value, Reach]) -> Reach | None:
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Constant":
        value = node.attributes.get("value")
        if value is None:
            plain = {"value_float", "value_int"} & set(node.attributes)
            return Reach() if plain else None
        tensor = value.as_tensor()
        return Reach(rank=len(tensor.shape)) if tensor.size == 1 else None
    operator = operator_of(node)
    if operator is None or not operator.elementwise or len(node.outputs) != 1:
        return None
    given = [v for v in node.inputs if v is not None and v.name != ""]
    if any(v not in known for v in given):
        return None
    reached = [known[v] for v in given]
    bounds = frozenset().union(*(r.bounds for r in reached))
    if node.op_type == "Clip":
        bounds = bounds.union(*(r.operands for r in reached[1:]))
    return Reach(
        frozenset().union(*(r.operands for r in reached)),
        max((r.rank for r in reached), default=0),
        bounds,
    )
