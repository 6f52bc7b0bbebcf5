"""Inputs whose dynamic dimensions have size 1, or 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir as ir

from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.decisions import RISKY_IF_EMPTY, SUMS_OF_NOTHING
from onnx_passes.ops.use import constant_of
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.inputs.adversarial import AdversarialFeeds, make_sized
from onnx_passes.runtime.inputs.concrete_shapes import Shaping
from onnx_passes.runtime.inputs.dims import Dims, symbols_of
from onnx_passes.runtime.inputs.seeded_feeds import DEAR, Made, Ranges, elements_of

_MOST_ALONE = 3
SMALL = 1 << 16
"""Elements up to which a sample of edge sizes costs little."""


def is_small(feeds: Feeds) -> bool:
    """Whether a sample of edge values is small, by its number of elements."""
    return elements_of(feeds) <= SMALL


def is_cheap(made: Made) -> bool:
    """Whether a sample of edge values costs little."""
    return is_small(made.feeds) and made.concrete.operations < DEAR


def samples_of_edge_sizes(
    model: ir.Model, seed: int, ranges: Ranges, dims: Dims, shaping: Shaping | None = None
) -> Iterator[tuple[Made, AdversarialFeeds]]:
    """Yield inputs whose dynamic dimensions all have size 1, and one of size 0.

    Sizes of pictures stay as they are. Each comes with what it was made from.

    Args:
        model: The model.
        seed: Of the elements.
        ranges: Ranges of inputs by name.
        dims: Sizes of dynamic dimensions that stay.
        shaping: What made other samples of the same model; None for a new one.
    """
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    symbols = symbols_of(inputs, model)
    settled = {n for shape in map(symbols.shapes.get, dims) for n in shape or ()}
    free = [
        name
        for name, kind in symbols.kinds.items()
        if kind != "spatial" and name not in {*dims, *settled}
    ]
    if not free:
        return
    plans = [(1, free)]
    if len({frozenset(shape) & frozenset(free) for shape in symbols.shapes.values()}) > 1:
        plans += [(1, [name]) for name in free[:_MOST_ALONE]]  # one input may broadcast
    if _takes_nothing(model):
        plans.append((0, free[:1]))
    for size, names in plans:
        sizes = {**dims, **dict.fromkeys(names, size)}
        made = make_sized(model, seed, ranges, sizes, shaping)
        # The first may be dear: others of the same sizes are not made.
        if made is None or not (is_cheap(made) or (names is free and is_small(made.feeds))):
            continue
        where = f"of {', '.join(names)}"
        yield made, AdversarialFeeds(made.feeds, f"size {size}", where, asked=False)


def _takes_nothing(model: ir.Model) -> bool:
    """Whether an engine can be given an empty input without the risk that it ends the process.

    A division of integers by a size does that, and kernels outside the standard are unknown.
    What the mean or the maximum of nothing is, the standard leaves open.
    """
    return all(
        node.domain == ""
        and node.op_type not in RISKY_IF_EMPTY
        and (not node.op_type.startswith("Reduce") or _sums_nothing(node))
        for node in all_nodes(model)
        if node.op_identifier() not in model.functions
    )


def _sums_nothing(node: ir.Node) -> bool:
    """Whether it is known what a reduction gives of no element.

    ONNX Runtime reduces no axis of an empty tensor that is counted from the end.
    """
    if node.op_type not in SUMS_OF_NOTHING:
        return False
    axes: Iterable[int] = node.attributes.get_ints("axes", ())
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        known = constant_of(node.inputs[1])
        if known is None:
            return False
        axes = known.ravel().tolist()
    return all(axis >= 0 for axis in axes)
