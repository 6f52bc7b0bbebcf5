"""Steps that move elements, and steps that compute with shapes."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_passes.verify.models.choosing import axis_of, ranked, static
from onnx_passes.verify.models.elementwise_steps import partner
from onnx_passes.verify.models.inferring import UnfitError
from onnx_passes.verify.models.known_values import ALL, NUMBERS, KnownValue, random_shape
from onnx_passes.verify.models.scope import GraphScope

INT64 = TensorProto.INT64


def transpose(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Transpose, with the default permutation at times."""
    value = ranked(scope, *ALL)
    perm = [int(i) for i in rng.permutation(value.rank)] if rng.random() < 0.8 else None
    scope.emit("Transpose", [value], perm=perm)


def reshape(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Reshape to a constant shape, with -1 and 0 at times."""
    value, sizes = static(scope, *ALL)
    total = math.prod(sizes)
    target = list(sizes) if rng.random() < 0.25 else _factors(rng, total)
    if target and total and rng.random() < 0.4:
        target[int(rng.integers(len(target)))] = -1
    allowzero = None
    if 0 in target:
        allowzero = 1
    elif target and sizes and rng.random() < 0.3 and target[0] == sizes[0]:
        target[0] = 0
    if allowzero and scope.opset < 14:
        raise UnfitError
    scope.emit("Reshape", [value, scope.ints(target, rng)], allowzero=allowzero)


def flatten(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Flatten, before or behind any axis."""
    value = ranked(scope, *ALL)
    axis = int(rng.integers(-value.rank, value.rank + 1)) if rng.random() < 0.8 else None
    scope.emit("Flatten", [value], axis=axis)


def squeeze(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Squeeze of dimensions of size 1, by name or all."""
    value = scope.pick(lambda v: v.shape is not None and 1 in v.shape)
    assert value.shape is not None
    ones = [i for i, dim in enumerate(value.shape) if dim == 1]
    if value.static is not None and rng.random() < 0.3:
        scope.emit("Squeeze", [value])
        return
    chosen = [i - value.rank if rng.random() < 0.3 else i for i in ones if rng.random() < 0.7]
    scope.emit("Squeeze", [value, scope.ints(chosen or ones, rng)])


def unsqueeze(scope: GraphScope, rng: np.random.Generator) -> None:
    """An Unsqueeze by one axis or two."""
    value = scope.pick(lambda v: 0 <= v.rank <= 3)
    count = int(rng.integers(1, 3))
    axes = [int(a) for a in rng.choice(value.rank + count, count, replace=False)]
    axes = [a - value.rank - count if rng.random() < 0.3 else a for a in axes]
    scope.emit("Unsqueeze", [value, scope.ints(axes, rng)])


def expand(scope: GraphScope, rng: np.random.Generator) -> None:
    """An Expand, mostly to a shape that differs."""
    value, sizes = static(scope, *ALL)
    target = [int(rng.integers(1, 4)) if s == 1 and rng.random() < 0.6 else s for s in sizes]
    if rng.random() < 0.3:
        target = [1 if rng.random() < 0.3 else size for size in target]
    if len(target) < 4 and rng.random() < 0.3:
        target = [int(rng.integers(1, 3)), *target]
    scope.emit("Expand", [value, scope.ints(target, rng)])


def concat(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Concat of one to three tensors."""
    value = ranked(scope, *ALL)
    axis = axis_of(rng, value.rank)
    shape = value.shape
    assert shape is not None
    parts = [value]
    for _ in range(int(rng.integers(0, 3))):
        other = list(shape)
        if rng.random() < 0.5:
            other[axis] = int(rng.integers(0, 4))
        if None in other:
            parts.append(value)
            continue
        try:
            parts.append(
                scope.pick(
                    lambda v, o=tuple(other): v.dtype == value.dtype and v.shape == o  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
                )
            )
        except UnfitError:
            parts.append(scope.fresh(rng, [value.dtype], tuple(other)))
    scope.emit("Concat", parts, axis=axis)


def split(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Split in even or uneven parts, or in one."""
    value, sizes = static(scope, *ALL, least=1)
    axis = axis_of(rng, len(sizes))
    size = sizes[axis]
    count = int(rng.integers(1, max(2, min(size, 3) + 1)))
    if size == 0 or (count > size):
        raise UnfitError
    cuts = sorted(int(c) for c in rng.integers(0, size + 1, count - 1))
    parts = np.diff([0, *cuts, size]).tolist()
    if size % count == 0 and rng.random() < 0.5:
        given = {"num_outputs": count} if scope.has_attribute("Split", "num_outputs") else {}
        scope.emit("Split", [value], outputs=count, axis=axis, **given)
    else:
        scope.emit("Split", [value, scope.ints(parts, rng)], outputs=count, axis=axis)


def slice_(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Slice with steps of either sign, and bounds that may lie outside."""
    value = ranked(scope, *ALL)
    count = int(rng.integers(1, value.rank + 1))
    axes = [int(a) for a in rng.choice(value.rank, count, replace=False)]
    starts = [int(rng.integers(-4, 4)) for _ in axes]
    ends = [int(rng.choice([-2, -1, 0, 1, 2, 5, 2**31 - 1, 2**63 - 1])) for _ in axes]
    steps = [int(rng.choice([1, 1, 1, 2, -1, -2])) for _ in axes]
    # Backwards "to the end" is the least number; for the greatest, engines differ.
    ends = [
        -end if end > 5 and step < 0 else end for end, step in zip(ends, steps, strict=True)
    ]
    if rng.random() < 0.2:
        starts, ends, steps = [0] * count, [2**63 - 1] * count, [1] * count
    inputs = [value, scope.ints(starts, rng), scope.ints(ends, rng)]
    if axes != list(range(count)) or any(s != 1 for s in steps) or rng.random() < 0.5:
        inputs.append(scope.ints(axes, rng))
        if any(s != 1 for s in steps) or rng.random() < 0.5:
            inputs.append(scope.ints(steps, rng))
    scope.emit("Slice", inputs)


def gather(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Gather by constant indices, negative ones among them."""
    value = ranked(scope, *ALL)
    assert value.shape is not None
    axis = axis_of(rng, value.rank)
    size = value.shape[axis]
    if not isinstance(size, int) or size == 0:
        raise UnfitError
    shape = [(), (1,), (2,), (3,), (2, 2)][int(rng.integers(5))]
    kind = np.int64 if rng.random() < 0.7 else np.int32
    indices = np.asarray(rng.integers(-size, size, shape), kind)
    scope.emit("Gather", [value, scope.constant(indices, rng)], axis=axis)


def pad(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Pad in one of its modes, negative amounts among them."""
    value, sizes = static(scope, TensorProto.FLOAT, TensorProto.DOUBLE, INT64, least=1)
    mode = str(rng.choice(["constant", "constant", "edge", "reflect"]))
    if mode != "constant" and min(sizes) < 2:
        raise UnfitError
    high = 2 if mode == "reflect" else 3
    amounts = [int(rng.integers(0, high)) if rng.random() < 0.5 else 0 for _ in sizes * 2]
    if mode == "constant" and min(sizes) > 2 and rng.random() < 0.2:
        amounts[0] = -1
    inputs: list[KnownValue | None] = [value, scope.ints(amounts, rng)]
    if mode == "constant" and rng.random() < 0.5:
        inputs.append(scope.fresh(rng, [value.dtype], ()))
    scope.emit("Pad", inputs, mode=mode if mode != "constant" or rng.random() < 0.5 else None)


def tile(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Tile, by ones at times."""
    value = ranked(scope, *ALL)
    repeats = [
        int(rng.choice([1, 1, 2, 0], p=[0.45, 0.2, 0.33, 0.02])) for _ in range(value.rank)
    ]
    scope.emit("Tile", [value, scope.ints(repeats, rng)])


def trilu(scope: GraphScope, rng: np.random.Generator) -> None:
    """The upper or lower triangle."""
    value = ranked(scope, *NUMBERS, least=2)
    k = scope.constant(np.asarray(rng.integers(-2, 3), np.int64), rng)
    upper = int(rng.integers(2)) if rng.random() < 0.7 else None
    scope.emit("Trilu", [value, k] if rng.random() < 0.6 else [value], upper=upper)


def shape_of(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Shape, of a part at times, or a Size."""
    value = scope.pick(lambda v: v.rank >= 0)
    if rng.random() < 0.2:
        scope.emit("Size", [value])
        return
    given = {}
    if scope.opset >= 15:
        given = {k: int(rng.integers(-2, 4)) for k in ("start", "end") if rng.random() < 0.3}
    scope.emit("Shape", [value], **given)


def reshape_by_shape(scope: GraphScope, rng: np.random.Generator) -> None:
    """The idiom of exporters: Shape, Gather, Concat, Reshape, over dynamic sizes as well."""
    value = ranked(scope, *ALL, least=2)
    (shape,) = scope.emit("Shape", [value])
    index = scope.constant(np.asarray([0], np.int64), rng)
    (first,) = scope.emit("Gather", [shape, index], axis=0)
    (target,) = scope.emit("Concat", [first, scope.ints([-1], rng)], axis=0)
    if value.shape is not None and value.shape[0] == 0:
        raise UnfitError
    scope.emit("Reshape", [value, target])


def expand_by_shape(scope: GraphScope, rng: np.random.Generator) -> None:
    """An Expand to the shape of another value."""
    value = scope.pick(lambda v: v.rank >= 0)
    other = partner(scope, rng, value)
    (shape,) = scope.emit("Shape", [value])
    scope.emit("Expand", [other, shape])


def constant_of_shape(scope: GraphScope, rng: np.random.Generator) -> None:
    """A tensor of one number, its shape known or computed."""
    if rng.random() < 0.5:
        sizes = [dim for dim in random_shape(rng) if isinstance(dim, int)]
        shape = scope.ints(sizes, rng)
    else:
        (shape,) = scope.emit("Shape", [scope.pick(lambda v: v.rank >= 0)])
    scope.emit("ConstantOfShape", [shape])


def range_(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Range between constants."""
    start, stop = (int(rng.integers(-3, 6)) for _ in range(2))
    step = int(rng.choice([1, 2, -1]))
    kind = np.int64 if rng.random() < 0.6 else np.float32
    bounds = [scope.constant(np.asarray(n, kind), rng) for n in (start, stop, step)]
    scope.emit("Range", bounds)


def scatter(scope: GraphScope, rng: np.random.Generator) -> None:
    """A ScatterND of whole rows, each written once."""
    value, sizes = static(scope, TensorProto.FLOAT, INT64, TensorProto.INT32, least=1)
    if sizes[0] == 0:
        raise UnfitError
    count = int(rng.integers(1, sizes[0] + 1))
    rows = rng.permutation(sizes[0])[:count].reshape(count, 1)
    updates = scope.fresh(rng, [value.dtype], (count, *sizes[1:]))
    indices = scope.constant(np.asarray(rows, np.int64), rng)
    scope.emit("ScatterND", [value, indices, updates])


def gather_elements(scope: GraphScope, rng: np.random.Generator) -> None:
    """A GatherElements by constant indices."""
    value, sizes = static(scope, *ALL, least=1)
    axis = axis_of(rng, len(sizes))
    if 0 in sizes:
        raise UnfitError
    indices = np.asarray(rng.integers(-sizes[axis], sizes[axis], sizes), np.int64)
    scope.emit("GatherElements", [value, scope.constant(indices, rng)], axis=axis)


def depth_to_space(scope: GraphScope, rng: np.random.Generator) -> None:
    """DepthToSpace in both modes, and SpaceToDepth."""
    value = scope.fresh(rng, [TensorProto.FLOAT], ("N", 4, 2, 2))
    if rng.random() < 0.5:
        mode = str(rng.choice(["DCR", "CRD"])) if rng.random() < 0.7 else None
        scope.emit("DepthToSpace", [value], blocksize=2, mode=mode)
    else:
        scope.emit("SpaceToDepth", [value], blocksize=2)


def _factors(rng: np.random.Generator, total: int) -> list[int]:
    """Return sizes of that product, in some order."""
    if total == 0:
        return [0, int(rng.integers(1, 4))]
    sizes: list[int] = []
    while total > 1:
        choices = [n for n in range(2, total + 1) if total % n == 0]
        sizes.append(int(rng.choice(choices)))
        total //= sizes[-1]
    sizes += [1] * int(rng.integers(0, 3))
    rng.shuffle(sizes)
    return sizes[:6] if math.prod(sizes[:6]) == math.prod(sizes) else sizes


STEPS = (
    transpose, transpose, reshape, reshape, flatten, squeeze, unsqueeze, expand, concat,
    concat, split, slice_, slice_, gather, pad, tile, trilu, shape_of, shape_of,
    reshape_by_shape, expand_by_shape, constant_of_shape, range_, scatter, gather_elements,
    depth_to_space,
)  # fmt: skip
"""Steps of this file, the common ones more than once."""
