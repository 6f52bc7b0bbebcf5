"""Whether a model meets the demands of `assert`, with what was found for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import onnx_ir as ir

from onnx_passes.errors import ModelError, OptionError
from onnx_passes.model.diff import explain_difference, structurally_equal
from onnx_passes.model.load import load_model
from onnx_passes.model.walk import (
    all_graphs,
    all_nodes,
    all_tensors,
    operator_histogram,
    topological_order,
    weight_bytes,
)
from onnx_passes.passes.analysis._accumulators import accumulators
from onnx_passes.passes.analysis._asked import Asked, DemandResult
from onnx_passes.passes.analysis._sized import (
    GIVE_SIZES,
    label_of,
    listed,
    operator_of,
    scaled,
    sized,
)
from onnx_passes.passes.analysis._structure import bottlenecks, components
from onnx_passes.passes.analysis._threshold_regions import floats_between, steps_of
from onnx_passes.passes.analysis.cost import ModelCost, cost_of
from onnx_passes.passes.analysis.dynamic_shapes import dynamic_values
from onnx_passes.passes.analysis.peak_memory import peak_of
from onnx_passes.passes.analysis.value_ranges import ranges_of
from onnx_passes.passes.naming import did_you_mean

_DIFFERENCE_LINES = 12


def findings(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    """Yield whether each demand holds, in the order of the options.

    Args:
        asked: The pass, whose options are the demands.
        model: The model.
    """
    demands = (_counts, _runs, _operators, _shapes, _opsets, _form, _ranges, _integers)
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
    operators = operator_histogram(model)
    if asked.max_nodes is not None:
        most = ", ".join(f"{count:,} {name}" for name, count in list(operators.items())[:3])
        yield _at_most(sum(operators.values()), asked.max_nodes, "nodes", _plain, most)
    if asked.max_parameters is not None:
        found = sum(tensor.size for tensor in all_tensors(model))
        where = _largest(model, lambda tensor: tensor.size, _plain)
        yield _at_most(found, asked.max_parameters, "parameters", _plain, where)
    if asked.max_size is not None:
        where = _largest(model, lambda tensor: tensor.nbytes, _bytes)
        yield _at_most(weight_bytes(model), asked.max_size, "size of weights", _bytes, where)
    for operator, limit in asked.max_op_counts.items():
        count = operators.get(operator, 0)
        where = listed(_labels(model, {operator}))
        yield _at_most(count, limit, f"{operator} nodes", _plain, where)


def _largest(
    model: ir.Model, measure: Callable[[ir.TensorProtocol], int], show: Callable[[int], str]
) -> str:
    tensors = sorted(all_tensors(model), key=lambda tensor: -measure(tensor))
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
    return [label_of(node) for node in all_nodes(model) if operator_of(node) in wanted]


def _operators(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    operators = operator_histogram(model)
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


def _form(asked: Asked, model: ir.Model) -> Iterator[DemandResult]:
    if asked.connected:
        parts = [part for graph in all_graphs(model) for part in components(graph)[1:]]
        if parts:
            told = listed([label_of(part[0]) for part in parts])
            text = f"connected: {len(parts):,} parts are apart from the rest, with {told}"
            yield DemandResult(False, text)
        else:
            yield DemandResult(True, "connected: all nodes hang together")
    if asked.acyclic:
        yield _acyclic(model)
    if asked.dominators:
        yield _dominated(asked, model)
    if asked.isomorphic_to is not None:
        other = load_model(asked.isomorphic_to).model
        if structurally_equal(model, other):
            yield DemandResult(True, f"isomorphic to {asked.isomorphic_to}")
        else:
            lines = explain_difference(model, other).splitlines()
            shown = "\n".join(f"  {line}" for line in lines[:_DIFFERENCE_LINES])
            text = f"isomorphic: it is no copy of {asked.isomorphic_to}"
            yield DemandResult(False, text, f"they differ here:\n{shown}" if shown else None)


def _acyclic(model: ir.Model) -> DemandResult:
    try:
        for graph in all_graphs(model):
            topological_order(graph)
    except ModelError as error:
        return DemandResult(False, f"acyclic: {error.message}", error.help)
    return DemandResult(True, "acyclic: no node needs its own output")


def _dominated(asked: Asked, model: ir.Model) -> DemandResult:
    """Names are those of nodes, and of the values that they make."""
    named: dict[str, ir.Node] = {}
    for node in model.graph:
        for name in (node.name, *(value.name for value in node.outputs)):
            named.setdefault(name or "", node)
    for name in asked.dominators:
        if not name or name not in named:
            hint = did_you_mean(name, named, "'structure' names the nodes that do")
            raise OptionError(f"assert: no node or value is named {name!r}", help=hint)
    through = bottlenecks(model.graph)
    around = [name for name in asked.dominators if named[name] not in through]
    if not around:
        return DemandResult(
            True, f"dominators: all data goes through {', '.join(asked.dominators)}"
        )
    told = listed([label_of(node) for node in through]) or "no node"
    return DemandResult(
        False, f"dominators: not all data goes through {', '.join(around)}, but through {told}"
    )


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
