"""What `assert` can demand of a model, and whether the model meets each demand.

Demands concern operators, sizes, costs, value ranges, accumulators, and nodes between
thresholds.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
import onnx
import onnx_ir as ir
from pydantic import AfterValidator, BeforeValidator, Field

from onnx_passes.errors import OptionError
from onnx_passes.model import walk
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, is_quantiser
from onnx_passes.ops.domains.intervals import Interval
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.passes.analysis._sizes import (
    GIVE_SIZES,
    label_of,
    listed,
    operator_label,
    scaled,
    sized,
)
from onnx_passes.passes.analysis.cost import ModelCost, cost_of
from onnx_passes.passes.analysis.dynamic_shapes import dynamic_values
from onnx_passes.passes.analysis.peak_memory import peak_of
from onnx_passes.passes.analysis.value_ranges import ranges_of
from onnx_passes.passes.base import Analysis
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.options import Size, did_you_mean
from onnx_passes.passes.quantised._quantisers import STANDARD
from onnx_passes.passes.streamline._integer_ranges import (
    PRODUCTS,
    IntegerRange,
    integer_ranges,
    may_skip,
    sums_of,
)

MAIN = "ai.onnx"


def known_operator(name: str) -> str:
    """Return an operator as statistics name it.

    ``Conv``, or ``domain::Op``. A ValueError says that ONNX defines the domain, and no such
    operator in it; other domains are left as they are.
    """
    domain, _, operator = name.rpartition("::")
    domain = "" if domain == MAIN else domain
    known = _operators().get(domain)
    if known is not None and operator not in known:
        hint = did_you_mean(operator, known, "other domains are written domain::Op")
        raise ValueError(f"no operator of ONNX is named {name!r}; {hint}")
    return f"{domain}::{operator}" if domain else operator


@cache
def _operators() -> dict[str, set[str]]:
    """Return the operators of every version, by domain."""
    found: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault(schema.domain, set()).add(schema.name)
    return found


_PREFIXES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_COUNT = re.compile(r"(\d{1,18}(?:\.\d+)?(?:[eE]\+?\d{1,2})?)\s*([kKMGT]?)")


def parse_count(value: object) -> object:
    """Turn ``"8.2 G"`` and ``"4e9"`` into a number; leave anything but text to pydantic."""
    if not isinstance(value, str):
        return value
    match = _COUNT.fullmatch(value.strip())
    if match is None:
        raise ValueError("a count is a number, with k, M, G or T if you like, such as 8.2 G")
    return round(float(match[1]) * _PREFIXES[match[2].upper()])


Count = Annotated[int, Field(ge=0), BeforeValidator(parse_count)]
"""A number of things; text such as ``8.2 G`` is understood."""


def _ordered(range_: Interval) -> Interval:
    if not range_[0] <= range_[1]:
        raise ValueError("a range is the least number, then the greatest")
    return range_


Range = Annotated[Interval, AfterValidator(_ordered)]
"""The least and the greatest number."""

Operator = Annotated[str, AfterValidator(known_operator)]
"""An operator; one that ONNX does not have is a slip, and would never be found."""


class Asked(Analysis):
    """The options of `assert`, each a demand."""

    max_nodes: Count | None = None
    max_parameters: Count | None = None
    max_size: Size | None = None
    max_flops: Count | None = None
    max_traffic: Size | None = None
    max_peak_memory: Size | None = None
    max_op_counts: dict[Operator, Count] = Field(default_factory=dict)
    ops_absent: tuple[Operator, ...] = ()
    ops_present: tuple[Operator, ...] = ()
    ops_only: tuple[Operator, ...] | None = None
    static_shapes: bool = False
    min_opset: Count | None = None
    max_opset: Count | None = None
    ranges: dict[str, Range] = Field(default_factory=dict)
    inputs: dict[str, Range] = Field(default_factory=dict)
    dims: dict[str, int] = Field(default_factory=dict)
    integers_between_thresholds: bool = False
    floats: tuple[Operator, ...] = ()
    accumulator_bits: Annotated[int, Field(ge=1, le=64)] | None = None


@dataclass(frozen=True)
class DemandResult:
    """Whether one demand holds.

    ``text`` has what was found beside what was asked for; ``help`` what to do if it does not
    hold.
    """

    holds: bool
    text: str
    help: str | None = None


_SHOWN = 8
"""Numbers of a witness that are printed."""

_NAMED = 3
"""Products that a sentence names."""


@dataclass(frozen=True)
class Overflow:
    """A product whose sums do not fit.

    ``reached`` is a sum on the way to an element, in some order. ``row`` of the weights makes
    it of ``data``, in the order of its weights; None if both factors are computed.
    """

    node: ir.Node
    reached: float
    row: int | None = None
    data: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """What happens where, and for what data."""
        told = f"{label_of(self.node)} reaches {self.reached:,.0f}"
        if self.row is None:
            return f"{told} at most, as far as is known"
        shown = ", ".join(f"{number:g}" for number in self.data[:_SHOWN])
        more = len(self.data) - _SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        return f"{told} in row {self.row} of its weights if that reads {shown}{rest}"


def accumulators(graph: ir.Graph, bits: int) -> tuple[bool, str]:
    """Return whether signed integers of some width hold all sums, and a sentence about it."""
    found = [overflow.text for overflow in overflows(graph, bits)]
    if not found:
        return True, f"sums of integers fit into INT{bits}"
    text = "; ".join(found[:_NAMED]) + ("; ..." if len(found) > _NAMED else "")
    return False, f"sums of integers do not fit into INT{bits}: {text}"


def overflows(graph: ir.Graph, bits: int) -> Iterator[Overflow]:
    """Yield products of integers whose sums do not fit into signed integers.

    The graph is in topological order.
    """
    ranges = integer_ranges(graph, declared=True)
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1
    for node in graph:
        found = ranges.get(node.outputs[0]) if node.op_type in PRODUCTS else None
        if node.domain != "" or found is None:
            continue
        for sign, end in ((1, max(found.high, found.most)), (-1, min(found.low, found.least))):
            if low <= end <= high:
                continue
            data = ranges.get(node.inputs[0]) if node.inputs[0] is not None else None
            yield _witness(node, data, sign, end)


def _witness(node: ir.Node, data: IntegerRange | None, sign: int, end: float) -> Overflow:
    weights = constant_of(node.inputs[1])
    sums = None if weights is None else sums_of(node, weights.numpy().astype(np.float64))
    if data is None or sums is None:
        return Overflow(node, end)
    low, high = data.low, data.high
    if may_skip(node):
        low, high = min(low, 0.0), max(high, 0.0)
    bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    start = 0.0 if bias is None else np.maximum(sign * bias.numpy().astype(np.float64), 0)
    best = Overflow(node, end)
    most = -np.inf
    for factors in sums:
        rows = factors.reshape(-1, factors.shape[-1])
        values = np.where(sign * rows >= 0, high, low)
        reached = np.maximum(sign * rows * values, 0).sum(-1) + start
        row = int(reached.argmax())
        if reached[row] > most:
            most = float(reached[row])
            best = Overflow(node, sign * most, row, tuple(values[row].tolist()))
    return best


_MEANS = frozenset({"AveragePool", "GlobalAveragePool", "ReduceMean"})


def floats_between(graph: ir.Graph, beside: Collection[str] = ()) -> list[ir.Node]:
    """Return nodes between thresholds whose results are not known to be integers.

    A node is between thresholds if something that a threshold (or quantiser) makes reaches it,
    and what it makes reaches another. Nodes that only move elements compute nothing. A mean is
    let through: it is a sum of integers by their number. The graph is in topological order.
    Operators in ``beside`` may compute in floating point, with what lies between them and the
    thresholds in front of them.
    """
    integers = integer_ranges(graph)
    behind: set[ir.Node] = set()
    for node in graph:
        if any(_is_step(p) or p in behind for p in _producers(node)):
            behind.add(node)
    found: set[ir.Node] = set()
    seen: set[ir.Node] = set()
    todo = [node for node in graph if _is_step(node)]
    while todo:
        for node in _producers(todo.pop()):
            if node in seen or _is_step(node) or node not in behind:
                continue
            seen.add(node)
            if node.op_type in beside:
                continue
            todo.append(node)
            if node.outputs[0] not in integers and not _only_moves(node):
                found.add(node)
    return [node for node in graph if node in found]


def steps_of(graph: ir.Graph) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the thresholds of a graph, and the quantisers."""
    steps = [node for node in graph if _is_step(node)]
    thresholds = [node for node in steps if node.op_type == "MultiThreshold"]
    return thresholds, [node for node in steps if node.op_type != "MultiThreshold"]


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    for value in node.inputs:
        producer = None if value is None else value.producer()
        if producer is not None:
            yield producer


def _is_step(node: ir.Node) -> bool:
    kind = (node.domain, node.op_type)
    threshold = kind in ((CUSTOM, "MultiThreshold"), STANDARD)
    return threshold or is_quantiser(node.domain, node.op_type)


def _only_moves(node: ir.Node) -> bool:
    if node.op_type in _MEANS:
        return True
    operator = operator_of(node)
    return operator is not None and bool(operator.moves)


def findings(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    """Yield whether each demand holds, in the order of the options.

    The options of ``asked`` are the demands.
    """
    demands = (_counts, _runs, _operators_demands, _shapes, _opsets, _ranges, _integers)
    for demand in demands:
        yield from demand(asked, model)


def _at_most(
    found: int, most: int, what: str, show: Callable[[int], str], where: str = ""
) -> DemandResult:
    """Compare a number with its limit."""
    if found <= most:
        return DemandResult(True, f"{what}: {show(found)}, at most {show(most)}")
    where = f" ({where})" if where else ""
    over = f"{show(found - most)} too many"
    return DemandResult(False, f"{what}: {show(found)}, at most {show(most)}: {over}{where}")


def _plain(number: int) -> str:
    return f"{number:,}"


def _bytes(number: int) -> str:
    return scaled(number, "B")


def _flops(number: int) -> str:
    return scaled(number, "FLOP")


def _counts(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    operators = walk.operator_histogram(model)
    if asked.max_nodes is not None:
        most = ", ".join(f"{count:,} {name}" for name, count in list(operators.items())[:3])
        yield _at_most(sum(operators.values()), asked.max_nodes, "nodes", _plain, most)
    if asked.max_parameters is not None:
        found = sum(tensor.size for tensor in walk.all_tensors(model))
        where = _largest(model, lambda tensor: tensor.size, _plain)
        yield _at_most(found, asked.max_parameters, "parameters", _plain, where)
    if asked.max_size is not None:
        where = _largest(model, lambda tensor: tensor.nbytes, _bytes)
        yield _at_most(
            walk.weight_bytes(model), asked.max_size, "size of weights", _bytes, where
        )
    for operator, limit in asked.max_op_counts.items():
        count = operators.get(operator, 0)
        where = listed(_labels(model, {operator}))
        yield _at_most(count, limit, f"{operator} nodes", _plain, where)


def _largest(
    model: ir.Model, measure: Callable[[ir.TensorProtocol], int], show: Callable[[int], str]
) -> str:
    tensors = sorted(walk.all_tensors(model), key=lambda tensor: -measure(tensor))
    return "largest: " + listed([f"{t.name or 'unnamed'} {show(measure(t))}" for t in tensors])


def _runs(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    if asked.max_flops is not None or asked.max_traffic is not None:
        cost = cost_of(model, asked.dims, name="assert")
        endless = list(cost.endless)
        if asked.max_flops is not None:
            missing = [*cost.missing_flops, *endless]
            where = _dearest(cost, "flops")
            bound = _at_most(cost.flops, asked.max_flops, "operations", _flops, where)
            yield _told(bound, missing, "nodes")
        if asked.max_traffic is not None:
            missing = [*cost.missing_bytes, *endless]
            where = _dearest(cost, "bytes")
            bound = _at_most(cost.bytes, asked.max_traffic, "memory traffic", _bytes, where)
            yield _told(bound, missing, "nodes")
    if asked.max_peak_memory is not None:
        peak = peak_of(model, asked.dims, name="assert")
        alive = [f"{name} {_bytes(size)}" for name, size in peak.alive.items()]
        where = f"at {peak.node}, where {listed(alive)} are alive"
        limit = asked.max_peak_memory
        bound = _at_most(peak.bytes, limit, "peak memory of activations", _bytes, where)
        yield _told(bound, list(peak.unknown), "values")


def _told(bound: DemandResult, missing: list[str], what: str) -> DemandResult:
    """What is too much without what is missing is too much; the rest is not known."""
    if not missing:
        return bound
    kind, _, told = bound.text.partition(": ")
    if not bound.holds:
        return DemandResult(False, f"{kind}: at least {told}")
    told = f"{kind}: cannot be told, sizes or rules are missing of {len(missing):,} {what}"
    return DemandResult(False, f"{told}: {listed(missing)}", GIVE_SIZES)


def _dearest(cost: ModelCost, what: str) -> str:
    def measure(index: int) -> int:
        node = cost.nodes[index]
        return (node.flops if what == "flops" else node.bytes) or 0

    order = sorted(range(len(cost.nodes)), key=lambda index: -measure(index))
    show = _flops if what == "flops" else _bytes
    return "dearest: " + listed([f"{cost.nodes[i].name} {show(measure(i))}" for i in order])


def _labels(model: ir.Model, operators: Iterable[str]) -> list[str]:
    wanted = set(operators)
    return [label_of(node) for node in walk.all_nodes(model) if operator_label(node) in wanted]


def _operators_demands(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    operators = walk.operator_histogram(model)
    if asked.ops_absent:
        there = [name for name in asked.ops_absent if name in operators]
        told = f"absent: {', '.join(asked.ops_absent)}"
        yield _where(not there, told, "must not occur", there, model)
    if asked.ops_present:
        gone = [name for name in asked.ops_present if name not in operators]
        text = f"present: {', '.join(asked.ops_present)}"
        yield DemandResult(
            not gone, f"{', '.join(gone)}: must occur, and does not" if gone else text
        )
    if asked.ops_only is not None:
        extra = [name for name in operators if name not in asked.ops_only]
        told = f"only: {', '.join(asked.ops_only)}"
        yield _where(not extra, told, "is not among the operators allowed", extra, model)


def _where(
    holds: bool, told: str, complaint: str, operators: list[str], model: ir.Model
) -> DemandResult:
    if holds:
        return DemandResult(True, told)
    labels = _labels(model, operators)
    names = ", ".join(operators)
    count = f"{len(labels):,} node{'s' if len(labels) > 1 else ''}"
    return DemandResult(False, f"{names}: {complaint}; {count}: {listed(labels)}")


def _shapes(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    if not asked.static_shapes:
        return
    dynamic = dynamic_values(sized(model, asked.dims, "assert"))
    if not dynamic:
        yield DemandResult(True, "shapes: all are fixed")
        return
    told = listed([f"{value.name}{value.shape}" for value in dynamic])
    text = f"shapes: {len(dynamic):,} values have no fixed one: {told}"
    yield DemandResult(False, text, "freeze-dims gives dimensions of inputs a size")


def _opsets(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    version = model.graph.opset_imports.get("", 0)
    help_ = "convert-opset moves a model to another version"
    if asked.min_opset is not None:
        text = f"opset: {version}, at least {asked.min_opset}"
        yield DemandResult(version >= asked.min_opset, text, help_)
    if asked.max_opset is not None:
        text = f"opset: {version}, at most {asked.max_opset}"
        yield DemandResult(version <= asked.max_opset, text, help_)


def _ranges(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    if not asked.ranges:
        return
    found = ranges_of(model, asked.inputs, asked.dims, name="assert").intervals
    for name, (least, most) in asked.ranges.items():
        if name not in found:
            hint = did_you_mean(name, found, "values of functions have no name of their own")
            raise OptionError(f"assert: the model has no value {name!r}", help=hint)
        low, high = found[name]
        text = (
            f"range of {name}: in [{low:.6g}, {high:.6g}], allowed [{least:.6g}, {most:.6g}]"
        )
        help_ = "bounds of inputs make it narrower: inputs: {image: [0, 1]}"
        yield DemandResult(least <= low and high <= most, text, help_)


def _integers(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    if asked.accumulator_bits is not None:
        yield DemandResult(*accumulators(model.graph, asked.accumulator_bits))
    if not asked.integers_between_thresholds:
        return
    thresholds, quantisers = steps_of(model.graph)
    left = [*quantisers, *floats_between(model.graph, asked.floats)]
    if left or not thresholds:
        told = listed([label_of(node) for node in left]) or "there are no thresholds"
        text = f"integers between thresholds: not so of {len(left):,} nodes: {told}"
        help_ = "'-c streamline' makes integers; 'explain' tells what a pass leaves alone"
        yield DemandResult(False, text, help_)
    else:
        yield DemandResult(True, f"integers between {len(thresholds):,} thresholds")
