"""Which node is likely at fault, so that a search may begin with it alone.

A guess costs one run of the whole model and one check; a bisection a dozen checks. What is
said here is never believed: a suspect counts only if the check fails on it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.digest import leaf_key
from onnx_passes.runtime.engine_base import Data, Engine, Feeds
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.reduce.checks import RunCheck
from onnx_passes.verify.reduce.outcome import CheckOutcome, ModelCheck
from onnx_passes.verify.reduce.parts import Nodes, Parts

_MEMORY = 1 << 30  # bytes of values; both runs are held at a time
_EPSILON = float(np.finfo(np.float32).eps)
_SAID = 1 << 16  # bytes at the end of what a check printed
_FEW = 2  # a log that names more nodes than these says nothing


def suspects(parts: Parts, check: ModelCheck) -> Iterator[Nodes]:
    """Return parts that are likely at fault, the likeliest first, found when asked for.

    Args:
        parts: The model.
        check: What fails on it; an engine has to have been asked of the whole model.
    """
    yield from (frozenset([index]) for index in _by_values(parts, check))
    yield from rare(parts)


def _by_values(parts: Parts, check: ModelCheck) -> list[int]:
    if isinstance(check, RunCheck):
        if check.kind == "finite":
            return not_finite(parts, check.engine)
        if check.kind == "differs":
            return divergent(parts, check.engine, check.contract)
        return []
    if parts.boundary.golden.keys() & _made(parts):
        return divergent(parts, parts.boundary.engine)
    return []


def named(parts: Parts, outcome: CheckOutcome) -> list[int]:
    """Return the nodes that a failure calls by name, if these are few.

    Args:
        parts: The nodes of the model.
        outcome: The failure, with its log.
    """
    said = f"{outcome.told}\n{outcome.log[-_SAID:].decode(errors='replace')}"
    names = {node.name: i for i, node in enumerate(parts.nodes) if node.name}
    words = (word.rstrip(".:") for word in re.findall(r"[^\s'\"()\[\],;]+", said))
    found = list(dict.fromkeys(names[word] for word in words if word in names))
    return found if len(found) <= _FEW else []


def divergent(
    parts: Parts, engine: Engine, contract: Equality | Tolerance | None = None
) -> list[int]:
    """Return the node whose value is the first to be wrong, and that which adds most to it.

    Args:
        parts: The model; its boundary knows the right values.
        engine: What is in doubt.
        contract: How close values have to be; None where that is not known, so that only the
            node that adds most is reported.

    Returns:
        Positions of nodes; none where the right values are not known, or the model does not
        run with all of its values as outputs.
    """
    made, boundary = _made(parts), parts.boundary
    names = [n for n in made if n in boundary.golden] or list(made)
    known = ((name, boundary.value(name)) for name in names)
    right = {name: array for name, array in known if array is not None}
    if not right or sum(array.nbytes for array in right.values()) > _MEMORY:
        return []
    seen = _values(parts, engine, right)
    if seen is None:
        return []
    off = {name: size for name in seen if (size := _off(right[name], seen[name])) > 0}
    found = []
    if contract is not None and (first := _first(names, off, right, seen, contract)):
        found.append(first)
    if (most := _most(parts, off)) is not None:
        found.append(most)
    return list(dict.fromkeys(made[name] for name in found))


def not_finite(parts: Parts, engine: Engine) -> list[int]:
    """Return the first node that makes NaN or Inf when the model runs.

    Args:
        parts: The nodes of the model.
        engine: Runs the model.
    """
    seen = _values(parts, engine, _made(parts))
    if seen is None:
        return []
    for index, node in enumerate(parts.nodes):
        for value in node.outputs:
            array = seen.get(str(value.name))
            if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
                return [index]
    return []


def _made(parts: Parts) -> dict[str, int]:
    """Return the node that computes each value, by the value's name."""
    return {
        str(v.name): i for i, node in enumerate(parts.nodes) for v in node.outputs if v.name
    }


def _values(
    parts: Parts, engine: Engine, wanted: Mapping[str, object]
) -> dict[str, Array] | None:
    try:
        feeds: Feeds = parts.boundary.feeds()
        with exposing(parts, wanted), engine.prepare(parts.model) as session:
            ran: Mapping[str, Data] = session.run(feeds)
    except OnnxPassesError:
        return None
    return {n: a for n, a in ran.items() if n in wanted and isinstance(a, np.ndarray)}


@contextmanager
def exposing(parts: Parts, wanted: Mapping[str, object]) -> Iterator[None]:
    """Make inner values outputs of the model for a while; a copy would take longer to make.

    Args:
        parts: The nodes of the model.
        wanted: Names of the values; what they map to does not matter.
    """
    graph = parts.model.graph
    count, known = len(graph.outputs), set(graph.outputs)
    try:
        graph.outputs.extend(
            value
            for node in parts.nodes
            for value in node.outputs
            if value.name in wanted and value not in known
        )
        yield
    finally:
        while len(graph.outputs) > count:  # a slice that is deleted leaves its values marked
            graph.outputs.pop()


def _off(right: Array, seen: Array) -> float:
    """Return the largest difference, as a share of the largest right value."""
    if right.shape != seen.shape:
        return float("inf")
    if np.array_equal(right, seen) or right.dtype.kind not in "fiu" or not right.size:
        return 0.0
    with np.errstate(all="ignore"):
        a, b = right.astype(np.float64), seen.astype(np.float64)
        size = float(np.max(np.abs(a - b)) / (np.max(np.abs(a)) + np.finfo(np.float32).tiny))
    return float("inf") if np.isnan(size) else size


def _first(
    names: Sequence[str],
    off: Mapping[str, float],
    right: Mapping[str, Array],
    seen: Mapping[str, Array],
    contract: Equality | Tolerance,
) -> str | None:
    promise = Promise(contract, inside=True)
    for name in names:
        if name in off and promise.broken({name: right[name]}, {name: seen[name]}):
            return name
    return None


def _most(parts: Parts, off: Mapping[str, float]) -> str | None:
    """Return the value that is off most, against what is read to compute it."""
    most: tuple[float, str] | None = None
    for index, node in enumerate(parts.nodes):
        read = max((off.get(str(v.name), 0.0) for v in parts.reads[index]), default=0.0)
        for value in node.outputs:
            size = off.get(str(value.name), 0.0)
            grown = size / max(read, _EPSILON)
            if size and (most is None or grown > most[0]):
                most = grown, str(value.name)
    return None if most is None else most[1]


_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def rare(parts: Parts) -> list[Nodes]:
    """Return the nodes of kinds that occur once, and then ends of one edge of each kind.

    Parts of more than half of the nodes are left out: bisection does as well as these.
    """
    kinds = _kinds(parts)
    counts = Counter(kinds)
    once = frozenset(i for i, kind in enumerate(kinds) if counts[kind] == 1)
    found = [once, _edges(parts, kinds)]
    return [p for p in dict.fromkeys(found) if p and 2 * len(p) <= len(kinds)]


def _edges(parts: Parts, kinds: list[int]) -> Nodes:
    makers = {v: i for i, node in enumerate(parts.nodes) for v in node.outputs}
    kept: set[int] = set()
    seen: set[tuple[int, int, int]] = set()
    for index, read in enumerate(parts.reads):
        for place, value in enumerate(read):
            maker = makers.get(value, -1)
            edge = (kinds[maker] if maker >= 0 else -1, place, kinds[index])
            if edge not in seen:
                seen.add(edge)
                kept |= {index, maker} if maker >= 0 else {index}
    return frozenset(kept)


def _kinds(parts: Parts) -> list[int]:
    """Number the nodes' operators with their attributes; equal ones get equal numbers."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(_kind(node), len(numbers)) for node in parts.nodes]


def _kind(node: ir.Node) -> object:
    attributes = tuple(
        (name, attribute.type if attribute.type in _GRAPHS else leaf_key(attribute))
        for name, attribute in sorted(node.attributes.items())
    )
    return node.domain, node.op_type, node.overload, len(node.inputs), attributes
