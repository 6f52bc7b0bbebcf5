"""Operators that move blocks about: transpose, concat, split, slice, squeeze."""

from __future__ import annotations

import itertools

import numpy as np

from onnx_passes.ops.call import normalize_axis
from onnx_passes.ops.movement import split_sizes
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.verify.rules.block_pointwise import block_operator
from onnx_passes.verify.rules.block_sizes import ONE, joined
from onnx_passes.verify.rules.block_terms import Form
from onnx_passes.verify.rules.block_values import Blocks, Node, Place, dropped, moved


@block_operator("Transpose")
def _(node: Node) -> Blocks:
    x = node.required(0)
    perm = node.attribute("perm", None)
    return moved(x, [int(p) for p in perm] if perm else list(range(x.rank))[::-1])


@block_operator("Unsqueeze")
def _(node: Node) -> Blocks:
    x, axes = node.required(0), node.ints(1, "axes") or []
    rank = x.rank + len(axes)
    new = {normalize_axis(a, rank) for a in axes}
    old = iter(range(x.rank))
    return moved(x, [None if i in new else next(old) for i in range(rank)])


@block_operator("Squeeze")
def _(node: Node) -> Blocks:
    x, axes = node.required(0), node.ints(1, "axes")
    drop = (
        {i for i, w in enumerate(x.words) if w == (ONE,)}
        if axes is None
        else {normalize_axis(a, x.rank) for a in axes}
    )
    if any(x.words[a] != (ONE,) for a in drop):
        raise Unsupported("Squeeze of an axis whose size is not 1")
    kept = [i for i in range(x.rank) if i not in drop]
    return dropped(x, kept)


@block_operator("Concat")
def _(node: Node) -> Blocks:
    parts = [node.required(i) for i in range(len(node.inputs))]
    first = parts[0]
    axis = normalize_axis(int(node.attribute("axis", 1)), first.rank)
    for part in parts[1:]:
        for i in range(first.rank):
            if i != axis:
                node.sizes.unify(first.words[i], part.words[i])
    forms: dict[Place, Form] = {}
    offset = 0
    for part in parts:
        for place, form in part.forms.items():
            forms[(*place[:axis], place[axis] + offset, *place[axis + 1 :])] = form
        offset += len(part.words[axis])
    words = list(first.words)
    words[axis] = joined([p.words[axis] for p in parts])
    return Blocks(tuple(words), forms, first.dtype)


@block_operator("Split")
def _(node: Node) -> tuple[Blocks, ...]:
    x = node.required(0)
    axis = normalize_axis(int(node.attribute("axis", 0)), x.rank)
    cuts = [node.sizes.remembered((*node.key, k)) for k in range(len(node.node.outputs))]
    if None in cuts:
        size = node.sizes.template(x.words[axis])
        if size is None:
            raise Unsupported("Split at sizes other than the template's")
        count = int(node.attribute("num_outputs", len(node.node.outputs)))
        ends = np.cumsum(split_sizes(size, node.ints(1, "split"), count)).tolist()
        edges = [node.sizes.cut_at(x.words[axis], end) for end in [0, *ends]]
        for k, (start, end) in enumerate(itertools.pairwise(edges)):
            node.sizes.remember((*node.key, k), x.words[axis][start:end])
        cuts = [node.sizes.remembered((*node.key, k)) for k in range(len(edges) - 1)]
    words = [cut for cut in cuts if cut is not None]
    node.sizes.unify(x.words[axis], joined(words))
    edges = np.cumsum([0, *(len(w) for w in words)]).tolist()
    pairs = itertools.pairwise(edges)
    return tuple(_taken(x, axis, start, end) for start, end in pairs)


@block_operator("Slice")
def _(node: Node) -> Blocks:
    x = node.required(0)
    starts, ends = node.ints(1, "starts") or [], node.ints(2, "ends") or []
    axes = node.ints(3, "axes") or list(range(len(starts)))
    if any(step != 1 for step in node.ints(4, "steps") or []):
        raise Unsupported("Slice with a step")
    for start, end, axis in zip(starts, ends, axes, strict=True):
        at = normalize_axis(axis, x.rank)
        size = node.sizes.template(x.words[at])
        if size is None:
            raise Unsupported("Slice at sizes other than the template's")
        low, high = (min(max(b + size if b < 0 else b, 0), size) for b in (start, end))
        if low >= high:
            raise Unsupported("Slice that leaves nothing")
        first, last = (node.sizes.cut_at(x.words[at], b) for b in (low, high))
        x = _taken(x, at, first, last)
    return x


def _taken(x: Blocks, axis: int, start: int, end: int) -> Blocks:
    words = list(x.words)
    words[axis] = x.words[axis][start:end]
    forms = {
        (*place[:axis], place[axis] - start, *place[axis + 1 :]): form
        for place, form in x.forms.items()
        if start <= place[axis] < end
    }
    return Blocks(tuple(words), forms, x.dtype)


@block_operator("Reshape", "Flatten")
def _(node: Node) -> Blocks:
    x = node.required(0)
    target = node.node.outputs[0].shape
    if target is None or not all(isinstance(d, int) for d in target):
        raise Unsupported(f"{node.node.op_type} to a shape that is not known")
    wide = [i for i, w in enumerate(x.words) if w != (ONE,)]
    wanted = [int(d) for d in target if isinstance(d, int)]
    if node.node.op_type == "Reshape":
        _check_sizes_left_open(node, x)
    if [node.sizes.template(x.words[i]) for i in wide] != [d for d in wanted if d != 1]:
        raise Unsupported(
            f"{node.node.op_type} that does more than add or drop axes of size 1"
        )
    axes = iter(range(len(wide)))
    return moved(dropped(x, wide), [None if d == 1 else next(axes) for d in wanted])


def _check_sizes_left_open(node: Node, x: Blocks) -> None:
    """Refuse a target that names sizes: only 1, 0 (as it was) and -1 fit all sizes."""
    for axis, size in enumerate(node.ints(1, "shape") or []):
        copied = size == 0 and not node.attribute("allowzero", 0) and axis < x.rank
        if not (size in (1, -1) or copied):
            raise Unsupported("Reshape to fixed sizes")
