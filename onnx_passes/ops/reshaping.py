"""Operators on shapes: reshaped tensors, and tensors made from shapes and constants."""

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.ops import input_hints as hints
from onnx_passes.ops import versions
from onnx_passes.ops.call import Call, Operands, Tensor, constant, normalize_axis
from onnx_passes.ops.domains.block_terms import ONE
from onnx_passes.ops.domains.blocks import Blocks, Node, dropped, known_constant, moved
from onnx_passes.ops.domains.intervals import Interval
from onnx_passes.ops.input_hints import axes, first
from onnx_passes.ops.movement import Move
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.semantics import Misfit, Unsupported

FEW = 3
_PLAIN = {
    "value_float": ir.DataType.FLOAT,
    "value_floats": ir.DataType.FLOAT,
    "value_int": ir.DataType.INT64,
    "value_ints": ir.DataType.INT64,
}


class Constant(Operator):
    """A tensor that the node holds."""

    changes = versions.CONSTANT

    free = one_attribute = True

    def evaluate(self, call: Call) -> Tensor:
        attributes = call.node.attributes
        if "value" in attributes:
            tensor = attributes["value"].as_tensor()
            return constant(tensor.numpy(), tensor.dtype, call.semantics)
        for name, dtype in _PLAIN.items():
            if name in attributes:
                array = np.array(attributes[name].value, dtype.numpy())
                return constant(array, dtype, call.semantics)
        raise Unsupported("a Constant that is a string or sparse")

    def blocks(self, node: Node) -> Blocks:
        if "value" not in node.node.attributes:
            for name, dtype in {
                "value_float": ir.DataType.FLOAT,
                "value_int": ir.DataType.INT64,
                "value_ints": ir.DataType.INT64,
            }.items():
                if name in node.node.attributes:
                    array = np.array(node.attribute(name, 0), dtype.numpy())
                    return known_constant(node, array, dtype)
            raise Unsupported("a Constant of this kind")
        tensor = node.node.attributes["value"].as_tensor()
        return known_constant(node, tensor.numpy(), tensor.dtype)


class ConstantOfShape(Operator):
    """A tensor of one number."""

    free = True
    steers = (0,)

    def evaluate(self, call: Call) -> Tensor:
        attr = call.node.attributes.get("value")
        fill = np.zeros(1, np.float32) if attr is None else attr.as_tensor().numpy()
        dtype = ir.DataType.FLOAT if attr is None else attr.as_tensor().dtype
        array = np.full(call.small(call.static_ints(0)), fill.reshape(-1)[0], fill.dtype)
        return constant(array, dtype, call.semantics)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        output = use.output_shape()
        return hints.exactly([FEW] * (use.length() or 1) if output is None else output)

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return c.integers(*c.pick(((2, 3), (3,))))


class Shape(Operator):
    """The sizes of the operand, or a part of them."""

    changes = versions.SHAPE

    free = reads_sizes = True
    in_range = (0,)

    def evaluate(self, call: Call) -> Tensor:
        sizes = call.semantics.sizes(call.required(0).data, call.node, 0)
        # Both count from the end if negative, and are clamped, as Python's slices are.
        part = slice(call.integer("start", 0), call.integer("end", len(sizes)))
        return Tensor(sizes[part], ir.DataType.INT64)

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, float(2**63 - 1)


class Size(Operator):
    """The number of elements."""

    free = reads_sizes = True
    in_range = (0,)

    def evaluate(self, call: Call) -> Tensor:
        sizes = call.semantics.sizes(call.required(0).data, call.node, 0)
        a = call.primitives(ir.DataType.INT64)
        found = call.semantics.along(
            lambda row: a.fold("mul", row) if row.shape[-1] else a.scalar(1), sizes
        )
        return Tensor(found, ir.DataType.INT64)

    def bounds(self, operands: Operands) -> Interval | None:
        return 0.0, float(2**63 - 1)


class Range(Operator):
    """The numbers from one on, up to a limit, by steps."""

    free = True
    steers = (0, 1, 2)

    def evaluate(self, call: Call) -> Tensor:
        dtype = call.required(0).dtype
        start, limit, step = (call.static(i).reshape(-1)[0] for i in range(3))
        count = max(int(np.ceil((limit - start) / step)), 0)
        call.small([count])
        numbers = (start + step * np.arange(count)).astype(dtype.numpy())
        return constant(numbers, dtype, call.semantics)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        output, start = use.output_shape(), use.constant(0)
        first = 0 if start is None else start.reshape(-1)[0]
        limit = first + (FEW if output is None else output[0])
        return hints.exactly((0, limit, 1)[use.index])


class EyeLike(Operator):
    """Ones on a diagonal, zeros elsewhere."""

    free = True

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        dtype = ir.DataType(call.integer("dtype", int(x.dtype)))
        rows, columns = x.shape
        ones = np.eye(rows, columns, call.integer("k", 0))
        return constant(ones.astype(dtype.numpy()), dtype, call.semantics)


def _reshaped(x: Tensor, shape: Sequence[int]) -> Tensor:
    try:
        return Tensor(x.data.reshape(tuple(shape)), x.dtype)
    except ValueError as error:
        raise Misfit(str(error)) from None


class Reshape(Move):
    """The same elements in another shape."""

    changes = versions.RESHAPE

    view = True
    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        wanted = call.ints_of(1, "shape") or []
        if not call.flag("allowzero"):
            wanted = [
                x.shape[i] if d == 0 and i < len(x.shape) else d for i, d in enumerate(wanted)
            ]
        return _reshaped(x, wanted)

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        if use.index != 1:
            return None
        data, output = use.input_shape(0), use.output_shape()
        if output is not None and (data is None or math.prod(data) == math.prod(output)):
            return hints.exactly(output)
        length = use.length()
        if length is None:
            return hints.exactly([-1])
        # One row, or as a last resort one column.
        return hints.exactly([1] * (length - 1) + [-1] if length else [])

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        if index == 0:
            return c.data(
                c.shape() if c.square else c.pick(((2, 3), (2, 3, 4), (4, 6), (0, 3)))
            )
        if c.parts:
            sizes = [1] * c.parts
            for factor in c.pick(((2, 3), (2, 3, 4), (4, 6))):
                sizes[int(c.rng.integers(c.parts))] *= factor
            if c.rng.random() < 0.5:
                sizes[int(c.rng.integers(c.parts))] = -1
            return c.integers(*sizes)
        shape = first(known, (2, 3))
        size = int(np.prod(shape, dtype=np.int64))
        options: list[hints.StaticShape] = [
            (size,),
            (-1,),
            (1, -1),
            shape,
            (-1, shape[-1] if shape else 1),
        ]
        if len(shape) == 2:
            options += [shape[::-1], (1, *shape), (0, -1)]
        if size % 16 == 0:
            options += [(size // 4, 2, 2), (size // 4, 2, 2), (size // 4, 4), (4, 4)]
        if c.target is not None and c.rng.random() < 0.5:
            # What two operands are reshaped to is often the same.
            return c.integers(*c.target)
        c.target = c.pick(options)
        return c.integers(*c.target)

    def blocks(self, node: Node) -> Blocks:
        _check_sizes_left_open(node, node.required(0))
        return _reblocked(node)


class Flatten(Move):
    """The same elements as a matrix."""

    view = True

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        axis = call.integer("axis", 1)
        axis = axis + len(x.shape) if axis < 0 else axis
        return _reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))

    def blocks(self, node: Node) -> Blocks:
        return _reblocked(node)


class Squeeze(Move):
    """The same elements without axes of size 1."""

    view = True
    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        axes, rank = call.ints_of(1, "axes"), len(x.shape)
        ones = {i for i, d in enumerate(x.shape) if d == 1}
        if axes == []:  # ONNX Runtime removes all of size 1, the reference none
            raise Unsupported("Squeeze with an empty list of axes")
        drop = ones if axes is None else {normalize_axis(a, rank) for a in axes}
        if not drop <= ones:
            raise Misfit("Squeeze of an axis whose size is not 1")
        return _reshaped(x, [d for i, d in enumerate(x.shape) if i not in drop])

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        data = use.input_shape(0)
        if data is None or use.index != 1:
            return None
        ones = [axis for axis, size in enumerate(data) if size == 1]
        return hints.exactly(ones if (length := use.length()) is None else ones[:length])

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return axes(c, index, none=False)

    def blocks(self, node: Node) -> Blocks:
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


class Unsqueeze(Move):
    """The same elements with more axes of size 1."""

    def adds_axes(self, count: int) -> int:
        return count

    view = True
    steers = (1,)

    def evaluate(self, call: Call) -> Tensor:
        x = call.required(0)
        axes = call.ints_of(1, "axes") or []
        rank = len(x.shape) + len(axes)
        new = {normalize_axis(a, rank) for a in axes}
        if len(new) != len(axes):
            raise Misfit("Unsqueeze of the same axis twice")
        sizes = iter(x.shape)
        return _reshaped(x, [1 if i in new else next(sizes) for i in range(rank)])

    def admits(self, use: hints.Use) -> hints.ValueHint | None:
        if use.index != 1:
            return None
        data, output, length = use.input_shape(0), use.output_shape(), use.length()
        if data is None or (length is None and output is None):
            return hints.exactly([0])
        if output is None or length is None:
            return hints.exactly(range(length or 1))
        axes = _added(data, output)
        return hints.exactly(axes if len(axes) == length else range(length))

    def suggest(self, c: hints.Choices, index: int, known: hints.Known) -> hints.Operand:
        return axes(c, index, none=True)

    def blocks(self, node: Node) -> Blocks:
        x, axes = node.required(0), node.ints(1, "axes") or []
        rank = x.rank + len(axes)
        new = {normalize_axis(a, rank) for a in axes}
        old = iter(range(x.rank))
        return moved(x, [None if i in new else next(old) for i in range(rank)])


def _added(data: hints.StaticShape, output: hints.StaticShape) -> list[int]:
    axes: list[int] = []
    position = 0
    for axis, size in enumerate(output):
        left = len(output) - axis - 1
        if (
            position < len(data)
            and data[position] == size
            and (size != 1 or left < len(data) - position)
        ):
            position += 1
        else:
            axes.append(axis)
    return axes


def _reblocked(node: Node) -> Blocks:
    """Return blocks with axes of size 1 added or dropped."""
    x = node.required(0)
    target = node.node.outputs[0].shape
    if target is None or not all(isinstance(d, int) for d in target):
        raise Unsupported(f"{node.node.op_type} to a shape that is not known")
    wide = [i for i, w in enumerate(x.words) if w != (ONE,)]
    wanted = [int(d) for d in target if isinstance(d, int)]
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
