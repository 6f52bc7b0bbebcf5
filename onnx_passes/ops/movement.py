"""Operators that move elements about and compute nothing: reshape, slice, concat, ..."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.base import operator
from onnx_passes.ops.call import Call, Tensor, constant, normalize_axis
from onnx_passes.ops.semantics import Unsupported


@operator("Constant")
def _(call: Call) -> Tensor:
    attributes = call.node.attributes
    if "value" in attributes:
        tensor = attributes["value"].as_tensor()
        return constant(tensor.numpy(), tensor.dtype, call.semantics)
    for name, dtype in {
        "value_float": ir.DataType.FLOAT,
        "value_floats": ir.DataType.FLOAT,
        "value_int": ir.DataType.INT64,
        "value_ints": ir.DataType.INT64,
    }.items():
        if name in attributes:
            return constant(
                np.array(attributes[name].value, dtype.numpy()), dtype, call.semantics
            )
    raise Unsupported("a Constant that is a string or sparse")


@operator("ConstantOfShape")
def _(call: Call) -> Tensor:
    attr = call.node.attributes.get("value")
    fill = np.zeros(1, np.float32) if attr is None else attr.as_tensor().numpy()
    dtype = ir.DataType.FLOAT if attr is None else attr.as_tensor().dtype
    shape = call.static_ints(0)
    return constant(np.full(shape, fill.reshape(-1)[0], fill.dtype), dtype, call.semantics)


@operator("Shape")
def _(call: Call) -> Tensor:
    shape = call.required(0).shape
    rank = len(shape)

    def clamp(bound: int) -> int:
        return min(max(bound + rank if bound < 0 else bound, 0), rank)

    start, end = clamp(call.integer("start", 0)), clamp(call.integer("end", rank))
    return constant(np.array(shape[start:end], np.int64), ir.DataType.INT64, call.semantics)


@operator("Size")
def _(call: Call) -> Tensor:
    return constant(np.array(call.required(0).data.size), ir.DataType.INT64, call.semantics)


@operator("Range")
def _(call: Call) -> Tensor:
    dtype = call.required(0).dtype
    start, limit, step = (call.static(i).reshape(-1)[0] for i in range(3))
    count = max(int(np.ceil((limit - start) / step)), 0)
    return constant(start + step * np.arange(count), dtype, call.semantics)


def _reshaped(x: Tensor, shape: Sequence[int]) -> Tensor:
    try:
        return Tensor(x.data.reshape(tuple(shape)), x.dtype)
    except ValueError as error:
        raise Unsupported(str(error)) from None


@operator("Reshape")
def _(call: Call) -> Tensor:
    x = call.required(0)
    wanted = call.ints_of(1, "shape") or []
    if not call.integer("allowzero", 0):
        wanted = [
            x.shape[i] if d == 0 and i < len(x.shape) else d for i, d in enumerate(wanted)
        ]
    return _reshaped(x, wanted)


@operator("Flatten")
def _(call: Call) -> Tensor:
    x = call.required(0)
    axis = call.integer("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return _reshaped(x, (rows, int(np.prod(x.shape[axis:], dtype=np.int64))))


@operator("Squeeze")
def _(call: Call) -> Tensor:
    x = call.required(0)
    axes = call.ints_of(1, "axes")
    rank = len(x.shape)
    drop = (
        {i for i, d in enumerate(x.shape) if d == 1}
        if axes is None
        else {normalize_axis(a, rank) for a in axes}
    )
    if any(x.shape[a] != 1 for a in drop):
        raise Unsupported("Squeeze of an axis whose size is not 1")
    return _reshaped(x, [d for i, d in enumerate(x.shape) if i not in drop])


@operator("Unsqueeze")
def _(call: Call) -> Tensor:
    x = call.required(0)
    axes = call.ints_of(1, "axes") or []
    rank = len(x.shape) + len(axes)
    new = {normalize_axis(a, rank) for a in axes}
    if len(new) != len(axes):
        raise Unsupported("Unsqueeze of the same axis twice")
    sizes = iter(x.shape)
    return _reshaped(x, [1 if i in new else next(sizes) for i in range(rank)])


@operator("Transpose")
def _(call: Call) -> Tensor:
    x = call.required(0)
    perm = call.integers("perm")
    return Tensor(np.transpose(x.data, perm), x.dtype)


@operator("Expand")
def _(call: Call) -> Tensor:
    x = call.required(0)
    try:
        shape = np.broadcast_shapes(x.shape, tuple(call.static_ints(1)))
    except ValueError as error:
        raise Unsupported(f"Expand: {error}") from None
    return Tensor(np.broadcast_to(x.data, shape), x.dtype)


@operator("Tile")
def _(call: Call) -> Tensor:
    x = call.required(0)
    return Tensor(np.tile(x.data, call.static_ints(1)), x.dtype)


@operator("Concat")
def _(call: Call) -> Tensor:
    tensors = [call.required(i) for i in range(len(call.inputs))]
    axis = normalize_axis(call.integer("axis", 1), len(tensors[0].shape))
    try:
        data = np.concatenate([t.data for t in tensors], axis)
    except ValueError as error:
        raise Unsupported(f"Concat: {error}") from None
    return Tensor(data, tensors[0].dtype)


@operator("Split")
def _(call: Call) -> tuple[Tensor, ...]:
    x = call.required(0)
    axis = normalize_axis(call.integer("axis", 0), len(x.shape))
    sizes = split_sizes(
        x.shape[axis],
        call.ints_of(1, "split"),
        call.integer("num_outputs", len(call.node.outputs)),
    )
    bounds = np.cumsum(sizes)[:-1].tolist()
    return tuple(Tensor(part, x.dtype) for part in np.split(x.data, bounds, axis))


def split_sizes(size: int, given: list[int] | None, count: int) -> list[int]:
    """Return the sizes that Split cuts an axis into.

    Raises:
        Unsupported: The given sizes do not add up.
    """
    if given is None:
        # The last part is the smaller one where the axis does not divide evenly.
        chunk = -(-size // count)
        given = [max(min(chunk, size - i * chunk), 0) for i in range(count)]
    if sum(given) != size:
        raise Unsupported(f"Split into {given} of an axis of size {size}")
    return given


@operator("Trilu")
def _(call: Call) -> Tensor:
    x = call.required(0)
    k = call.static_ints(1)[0] if call.given(1) is not None else 0
    mask = np.ones(x.shape, np.bool_)
    kept = np.triu(mask, k) if call.integer("upper", 1) else np.tril(mask, k)
    data = x.data.copy()
    data[~kept] = call.literal(0, x.dtype)
    return Tensor(data, x.dtype)


@operator("DepthToSpace")
def _(call: Call) -> Tensor:
    x, block = call.required(0), call.integer("blocksize", 1)
    n, c, h, w = x.shape
    if call.text("mode", "DCR") == "DCR":
        split, order = (n, block, block, c // block**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, c // block**2, block, block, h, w), (0, 1, 4, 2, 5, 3)
    moved = x.data.reshape(split).transpose(order)
    return Tensor(moved.reshape(n, c // block**2, h * block, w * block), x.dtype)


@operator("SpaceToDepth")
def _(call: Call) -> Tensor:
    x, block = call.required(0), call.integer("blocksize", 1)
    n, c, h, w = x.shape
    split = x.data.reshape(n, c, h // block, block, w // block, block)
    moved = split.transpose(0, 3, 5, 1, 2, 4)
    return Tensor(moved.reshape(n, c * block**2, h // block, w // block), x.dtype)
