"""Each decision of a streamlined network, held against what the original reads there.

What a quantiser decides about an element is *undecided* if what it reads is so near a step
that rounding alone can put it on either side. Every other element must be what the original
makes of the same decisions before it. The result is replayed. At each quantiser, the original
computes what it reads from the decisions that the result made so far, in double precision with
a bound on what rounding can do (``RoundingSemantics``). So one tie early on explains no
difference behind it, only itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.model.ort_sessions import open_session
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.ops.bodies.operator_bodies import is_quantiser
from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics, bounded
from onnx_passes.ops.evaluation import evaluate_node
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.quantised._quantisers import Quantiser, pair_of, quantiser_of
from onnx_passes.passes.streamline._integer_ranges import only_moves
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine

SIDES = 2
"""Rounding of the original and of the result may add up."""

SLACK = 1e-5
"""Of the largest element, how far values with the same level may be apart."""

NEAR = 2
"""Levels by which the commonest difference may be off."""

MOST = 0.5
"""The share of elements that must be equal for thresholds to be those of a quantiser."""


@dataclass
class Ties:
    """What was found in the results of one network.

    Attributes:
        elements: Elements of the network's outputs.
        changed: Those that are not what they were in the original.
        decisions: Elements that quantisers of the original decide about.
        undecided: Those that rounding can put on either side of a step.
        flipped: Those that came out otherwise than the original decides about its pre-image.
        unexplained: Decisions and outputs that rounding does not explain.
        steps: Quantisers of the original.
        found: Those whose decisions the result holds as well, in thresholds; what the others
            decide about is taken for both, where it is undecided.
    """

    elements: int = 0
    changed: int = 0
    decisions: int = 0
    undecided: int = 0
    flipped: int = 0
    unexplained: int = 0
    steps: int = 0
    found: int = 0


@dataclass(frozen=True)
class Step:
    """A quantiser of computed values: nodes in a row, and the first reads them."""

    nodes: tuple[ir.Node, ...]
    quantiser: Quantiser | None

    @property
    def source(self) -> ir.Value:
        """What it reads."""
        return self.nodes[0].inputs[0]

    @property
    def result(self) -> ir.Value:
        """What it decides."""
        return self.nodes[-1].outputs[0]


def ties_of(original: ir.Model, result: ir.Model, feeds: Sequence[Feeds]) -> Ties:
    """Account for each decision of a streamlined network.

    Args:
        original: A quantised network.
        result: What was made of it: thresholds of our own domain.
        feeds: Inputs of each sample.

    Raises:
        Unsupported: A node of the network has no bound on its rounding.
    """
    steps = steps_of(original.graph)
    thresholds = [n.outputs[0] for n in result.graph if n.op_type == "MultiThreshold"]
    before = _runs(original, [step.result for step in steps], feeds)
    after = _runs(result, thresholds, feeds)
    matches = _matches(steps, [str(value.name) for value in thresholds], before, after)
    found = [
        _account(
            original, steps, list(zip(feeds, before, after, strict=True)), matches, nearest
        )
        for nearest in (True, False)
    ]
    return min(found, key=lambda ties: ties.unexplained)


def _account(original, steps, runs, matches, nearest):
    """Replay each run of the result; readings of thresholds are the nearest, or the usual."""
    found = Ties(steps=len(steps), found=len(matches))
    for sample, old, new in runs:
        for value in original.graph.outputs:
            found.elements += old[str(value.name)].size
            found.changed += int(_differ(old[str(value.name)], new[str(value.name)]).sum())
        decided = {name: match(new) for name, match in matches.items()}
        outputs = _replay(original, steps, sample, decided, found, nearest)
        for name, tensor in outputs.items():
            value, error = tensor.data["value"], tensor.data["error"]
            room = SIDES * error + SLACK * np.abs(value).max(initial=0.0)
            found.unexplained += int((np.abs(new[name] - value) > room).sum())
    return found


def _runs(model, shown, feeds):
    """Return the outputs of a model, and inner values, for each sample."""
    copy = model.clone()
    values = {str(v.name): v for node in copy.graph for v in node.outputs}
    for name in (str(value.name) for value in shown):
        if values[name] not in copy.graph.outputs:
            values[name].type = ir.TensorType(ir.DataType.FLOAT)
            copy.graph.outputs.append(values[name])
    with OnnxRuntimeEngine(prepacking=False).prepare(copy) as session:
        return [dict(session.run(sample)) for sample in feeds]


Match = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]


def _matches(steps, thresholds, before, after):
    """Find the thresholds that count what a quantiser decides, by what they count.

    Levels differ by an integer for each channel. Whatever is matched is held against the
    pre-image, so that a wrong match can only accuse.
    """
    pairs = []
    for step in steps:
        quantiser = step.quantiser
        if quantiser is None:
            continue
        name, scale = str(step.result.name), quantiser.scale.astype(np.float64)
        zero = quantiser.zero.astype(np.float64)
        levels = [np.rint(run[name] / scale + zero) for run in before]
        for threshold in thresholds:
            counts = [run[threshold].astype(np.float64) for run in after]
            many = quantiser.high - quantiser.low > 2 * NEAR + 1
            usual = (quantiser.low, quantiser.high, *np.unique(zero)) if many else ()
            share, offsets = _offsets(levels, counts, usual)
            if share > MOST:
                decision = _decision(threshold, offsets, scale, zero)
                pairs.append((share, name, threshold, decision))
    found: dict[str, Match] = {}
    taken: set[str] = set()
    for _, name, threshold, decision in sorted(pairs, key=lambda pair: -pair[0]):
        if name not in found and threshold not in taken:
            found[name] = decision
            taken.add(threshold)
    return found


def _decision(threshold, offsets, scale, zero):
    return lambda run: [(run[threshold] + offset - zero) * scale for offset in offsets]


def _offsets(levels, counts, usual):
    """Return what share of counts become levels, by one term or one for each channel.

    Where many elements are flipped, the commonest difference may be off: counting mostly
    starts at the least level, the greatest one or 0, which are tried too.
    """
    best, found = 0.0, []
    if any(a.shape != b.shape for a, b in zip(levels, counts, strict=True)):
        return best, found
    apart = np.concatenate([a - b for a, b in zip(levels, counts, strict=True)])
    for axis in (None, 1, apart.ndim - 1):
        others = tuple(i for i in range(apart.ndim) if i != axis)
        median = np.rint(np.median(apart, axis=others, keepdims=True))
        start = median
        for known in usual:
            start = np.where(np.abs(start - known) <= NEAR, known, start)
        found += [median, start]
        best = max(best, float((apart == median).mean()))
    return best, found


def steps_of(graph: ir.Graph) -> list[Step]:
    """Return the quantisers of computed values, in order."""
    steps = []
    for node in graph:
        pair = pair_of(node)
        if pair is not None:
            steps.append(Step(pair.nodes, pair.quantiser))
        elif is_quantiser(node.domain, node.op_type):
            steps.append(Step((node,), quantiser_of(node)))
    weights = _constants(graph)
    return [step for step in steps if step.source not in weights]


def _constants(graph: ir.Graph) -> set[ir.Value]:
    found = set(graph.initializers.values())
    for node in graph:
        if all(value is None or value in found for value in node.inputs):
            found.update(node.outputs)
    return found


def _replay(model, steps, sample, decided, found, nearest):
    """Return the outputs that the original computes from what the result decided."""
    semantics = RoundingSemantics()
    opset = model.graph.opset_imports[""]
    known: dict[ir.Value, Tensor] = {}

    def note(value: ir.Value, array: np.ndarray) -> None:
        known[value] = constant(array, ir.DataType.from_numpy(array.dtype), semantics)

    for value in model.graph.inputs:
        if not value.is_initializer():
            note(value, np.asarray(sample[str(value.name)]))
    for value in model.graph.initializers.values():
        note(value, value.const_value.numpy())
    ends = {step.nodes[-1]: step for step in steps}
    skipped = {node for step in steps for node in step.nodes}
    weights = _constants(model.graph)
    for node in model.graph:
        if node in ends:
            step = ends[node]
            new = decided.get(str(node.outputs[0].name), ())
            new = new if nearest else new[::-1]
            known[node.outputs[0]] = _decide(
                step, known[step.source], new, opset, found, nearest
            )
        elif node not in skipped:
            if node.domain and all(value in weights for value in node.inputs if value):
                known[node.outputs[0]] = _rounded(_run((node,), None, opset))
                continue
            if node.op_type == "Resize" and only_moves(node):
                known[node.outputs[0]] = _resized(node, known[node.inputs[0]], opset)
                continue
            made = evaluate_node(node, known, semantics, opset)
            pairs = zip(node.outputs, made, strict=False)
            known.update((output, tensor) for output, tensor in pairs if tensor is not None)
    return {str(value.name): known[value] for value in model.graph.outputs}


def _decide(step, tensor, decided, opset, found, nearest):
    """Return what the result decides; what it may decide where it does not show it.

    Args:
        step: A quantiser.
        tensor: What it reads, with bounds.
        decided: Readings of the result's thresholds; the best one is taken.
        opset: Version of the standard domain.
        found: What is counted.
        nearest: Whether of readings that are as good the one with fewer flips is taken, and
            not the first.
    """
    value, error = tensor.data["value"], SIDES * tensor.data["error"]
    assert np.isfinite(error).all(), f"no bound in front of {step.nodes[-1].name}"
    ends = [
        np.nextafter(np.float32(value + s * error), np.float32(s * np.inf)) for s in (-1, 1)
    ]
    points = (*ends, value.astype(np.float32))
    low, high, middle = (_run(step.nodes, point, opset) for point in points)
    found.decisions += value.size
    found.undecided += int((low != high).sum())
    if not decided:
        made = _rounded(middle)
        made.data["error"] += np.abs(high - low)
        return made
    slack = SLACK * np.abs(middle).max(initial=0.0)

    def wrong(new: np.ndarray) -> tuple[int, int]:
        below, above = np.minimum(low, high) - slack, np.maximum(low, high) + slack
        outside = (new < below) | (new > above)
        return int(outside.sum()), int((np.abs(middle - new) > slack).sum())

    new = min(decided, key=lambda one: wrong(one)[: 1 + nearest])
    unexplained, flipped = wrong(new)
    found.unexplained += unexplained
    found.flipped += flipped
    return _rounded(new)


def _resized(node: ir.Node, tensor: Tensor, opset: int) -> Tensor:
    """Return elements of an image with their bounds, by the places that they are from."""
    places = np.arange(tensor.data.size, dtype=np.float32).reshape(tensor.data.shape)
    taken = np.rint(_run((node,), places, opset)).astype(np.int64)
    return Tensor(tensor.data.reshape(-1)[taken], tensor.dtype)


def _rounded(array: np.ndarray) -> Tensor:
    """Return what a quantiser makes: a level times a scale, rounded."""
    wide = array.astype(np.float64)
    return Tensor(bounded(wide, np.finfo(np.float32).eps * np.abs(wide)), ir.DataType.FLOAT)


def _run(nodes: Sequence[ir.Node], array: np.ndarray | None, opset: int) -> np.ndarray:
    """Return what a quantiser makes of an array, or of its own constants."""
    proto = onnx.ModelProto(ir_version=10)
    proto.opset_import.add(domain="", version=opset)
    for domain in sorted({node.domain for node in nodes} - {""}):
        proto.opset_import.add(domain=domain, version=1)
    proto.graph.name = "step"
    source = nodes[0].inputs[0]
    made = {str(value.name) for node in nodes for value in node.outputs}
    for node in nodes:
        proto.graph.node.append(ir.serde.serialize_node(node))
        proto.graph.node[-1].overload = ""
        for value in node.inputs:
            name = "" if value is None else str(value.name)
            if not name or name in made:
                continue
            if array is not None and value is source:
                shape = list(array.shape)
                proto.graph.input.append(onnx.helper.make_tensor_value_info(name, 1, shape))
            else:
                made.add(name)
                known = constant_of(value).numpy()
                proto.graph.initializer.append(onnx.numpy_helper.from_array(known, name))
    proto.graph.output.append(onnx.ValueInfoProto(name=str(nodes[-1].outputs[0].name)))
    attach_bodies(proto)
    feeds = {} if array is None else {str(source.name): array}
    (found,) = open_session(proto).run(None, feeds)
    return np.asarray(found)


def _differ(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    return ~np.isclose(old, new, rtol=1e-4, atol=1e-5, equal_nan=True)
