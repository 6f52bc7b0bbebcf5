"""Convert one node between versions of its operator.

Schemas say which attributes became inputs. The changes here are those that schemas do not say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.plain import Plain


class CannotConvertError(Exception):
    """A node has no equivalent in the version wanted; the message says why."""


class FreeNames(Protocol):
    """Gives names that are free."""

    def node(self, stem: str) -> str:
        """Return the name of a new node."""

    def value(self, stem: str) -> str:
        """Return the name of a new value."""


class Edit:
    """A node, and what adapters do with it.

    The node keeps its outputs, whatever becomes of its operator. ``added`` are the nodes in
    front of it, in order. ``enlarges`` says that it is known to enlarge, as an Upsample does.
    """

    def __init__(
        self,
        node: ir.Node,
        namer: FreeNames,
        constant_of: Callable[[ir.Value], ir.TensorProtocol | None],
    ) -> None:
        self.constant_of = constant_of
        self.node = node
        self.added: list[ir.Node] = []
        self.enlarges = False
        self._namer = namer

    def fail(self, reason: str) -> CannotConvertError:
        """Return the error to raise."""
        return CannotConvertError(reason)

    def input(self, index: int) -> ir.Value | None:
        """Return an input, None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def data(self) -> ir.Value:
        """Return the first input."""
        value = self.input(0)
        assert value is not None, "the first input of an operator with adapters is required"
        return value

    def output_used(self, index: int) -> bool:
        """Whether somebody reads or returns an output."""
        if index >= len(self.node.outputs):
            return False
        value = self.node.outputs[index]
        return bool(value.uses()) or value.is_graph_output()

    def attribute(self, name: str, default: object = None) -> Plain:
        attribute = self.node.attributes.get(name)
        if attribute is None:
            return default
        if attribute.is_ref():
            raise self.fail(f"its {name} is an attribute of the function around it")
        return attribute.value

    def take(self, name: str, default: object = None) -> Plain:
        """Remove an attribute and return its value."""
        value = self.attribute(name, default)
        self.node.attributes.pop(name, None)
        return value

    def set(self, **attributes: Plain) -> None:
        """Set attributes; the type follows from the value."""
        for name, value in attributes.items():
            self.node.attributes[name] = ir.convenience.convert_attribute(name, value)

    def rank(self, value: ir.Value | None = None) -> int | None:
        """Return the rank of a value, of the first input if none is given."""
        shape = (value or self.data()).shape
        return None if shape is None else len(shape)

    def constant_input(self, index: int, what: str) -> Array | None:
        """Return what an input always holds, or None; ``CannotConvertError`` if computed."""
        value = self.input(index)
        if value is None:
            return None
        tensor = self.constant_of(value)
        if tensor is None:
            several = what.endswith("s")
            held = "are computed, and must be attributes"
            held = held if several else "is computed, and must be an attribute"
            raise self.fail(f"its {what} {held} there")
        return tensor.numpy()

    def set_inputs(self, *values: ir.Value | None) -> None:
        """Replace all inputs; trailing ones that are left out go."""
        kept = list(values)
        while kept and kept[-1] is None:
            kept.pop()
        self.node.resize_inputs(len(kept))
        for index, value in enumerate(kept):
            self.node.replace_input_with(index, value)

    def constant(
        self, what: str, array: Array | Sequence[Plain], dtype: npt.DTypeLike | None = None
    ) -> ir.Value:
        """Add a constant in front of the node; int64 unless a dtype is given."""
        tensor = ir.tensor(np.asarray(array, dtype=dtype or np.int64))
        return self.add("Constant", [], what, value=tensor)

    def add(
        self, operator: str, inputs: Sequence[ir.Value | None], what: str, **attributes: Plain
    ) -> ir.Value:
        """Add a node of the ONNX domain in front, named after ``what``; return its output."""
        stem = f"{self.node.outputs[0].name}_{what}"
        converted = ir.convenience.convert_attributes(attributes)
        node = ir.Node("", operator, inputs, converted, name=self._namer.node(stem))
        (value,) = node.outputs
        value.name = self._namer.value(stem)
        graph = self.node.graph
        assert graph is not None, "the node is in a graph"
        graph.insert_before(self.node, node)
        node.metadata_props.update(self.node.metadata_props)
        self.added.append(node)
        return value

    def become(self, operator: str, *inputs: ir.Value | None, **attributes: object) -> None:
        """Make another operator of the node; its outputs stay."""
        self.node.op_type = operator
        self.node.attributes.clear()
        self.set(**attributes)
        self.set_inputs(*inputs)


Adapter: TypeAlias = Callable[[Edit], None]


@dataclass(frozen=True)
class VersionChange:
    """What a version of an operator changed beyond what its schema says.

    ``up`` makes a node of this version of one of the version before; ``down`` undoes that.
    """

    up: Adapter | None = None
    down: Adapter | None = None


def numbers_of(array: Array | None) -> list[int] | None:
    """Return the integers of an array as a list."""
    return None if array is None else [int(number) for number in array.reshape(-1)]


def _exponent_up(edit: Edit) -> None:
    """Takes an integer as exponent."""
    exponent = edit.take("p", 2.0)
    if exponent != int(exponent):
        raise edit.fail(f"its exponent {exponent} is not an integer")
    edit.set(p=int(exponent))


def _concat_up(edit: Edit) -> None:
    """Demands an axis."""
    edit.set(axis=edit.attribute("axis", 1))


def _selu_up(edit: Edit) -> None:
    """Has defaults with more digits."""
    edit.set(alpha=edit.attribute("alpha", 1.6732), gamma=edit.attribute("gamma", 1.0507))


def _cast_up(edit: Edit) -> None:
    """The type is given as a number."""
    name = edit.take("to")
    edit.set(to=int(ir.DataType[name]))


def _tile_up(edit: Edit) -> None:
    """Takes a repeat for each axis."""
    tiles, axis = edit.constant_input(1, "tiles"), edit.constant_input(2, "axis")
    rank = edit.rank()
    if tiles is None or axis is None or rank is None:
        raise edit.fail("the rank of its input is not known")
    repeats = [1] * rank
    repeats[int(axis.item())] = int(tiles.item())
    edit.set_inputs(edit.input(0), edit.constant("repeats", repeats))


def _prelu_up(edit: Edit) -> None:
    """Broadcasts its slope as numpy does, and before along the channels."""
    slope = edit.input(1)
    if slope is None:
        return
    rank, shape = edit.rank(), slope.shape
    if rank is None or shape is None:
        raise edit.fail("the ranks of its inputs are not known")
    if len(shape) == 1 and shape[0] != 1 and rank > 2:
        axes = list(range(1, rank - 1))
        edit.set_inputs(edit.input(0), edit.add("Unsqueeze", [slope], "slope", axes=axes))


def _is_test_up(edit: Edit) -> None:
    """Lost the attribute that separated training from inference."""
    if edit.take("is_test", 0) != 1:
        raise edit.fail("is_test=0 means training, which opset 7 defines differently")


def _upsample_7_up(edit: Edit) -> None:
    """Takes a scale for each axis."""
    height, width = edit.take("height_scale"), edit.take("width_scale")
    edit.set(scales=[1.0, 1.0, height, width])


def _spatial_up(edit: Edit) -> None:
    """Lost the mode with a mean for each activation."""
    if edit.take("spatial", 1) != 1:
        raise edit.fail("spatial=0 has no equivalent from opset 9 on")


def _scan_up(edit: Edit) -> None:
    """Lost its batch axis and the lengths of sequences."""
    raise edit.fail("Scan of opset 8 runs over a batch, which it does not from opset 9 on")


def _upsample_10_up(edit: Edit) -> None:
    """Gave way to Resize."""
    edit.node.op_type = "Resize"
    edit.enlarges = True


def _shape_down(edit: Edit) -> None:
    """Gives the whole shape."""
    start, end = edit.take("start", 0), edit.take("end")
    if start == 0 and end is None:
        return
    last = np.iinfo(np.int64).max if end is None else end
    whole = edit.add("Shape", [edit.data()], "whole")
    bounds = (edit.constant("start", [start]), edit.constant("end", [last]))
    edit.become("Slice", whole, *bounds, edit.constant("axis", [0]))


def _reshape_down(edit: Edit) -> None:
    """Copies a dimension where the target has a 0."""
    if edit.take("allowzero", 0):
        target = edit.constant_input(1, "targets with allowzero")
        if target is None or (target == 0).any():
            raise edit.fail("its target has a 0 that means 0")


def _constant_down(edit: Edit) -> None:
    """Holds tensors only."""
    for name, dtype in (("float", np.float32), ("int", np.int64), ("string", np.str_)):
        for attribute in (f"value_{name}", f"value_{name}s"):
            value = edit.take(attribute)
            if value is not None:
                edit.set(value=ir.tensor(np.array(value, dtype=dtype)))


def _gemm_down(edit: Edit) -> None:
    """Demands its third input."""
    dtype = edit.data().dtype
    if edit.input(2) is None:
        if dtype is None:
            raise edit.fail("the type of its inputs is not known")
        zero = edit.constant("zero", [0], dtype.numpy())
        edit.set_inputs(edit.input(0), edit.input(1), zero)


EXPONENT = {2: VersionChange(up=_exponent_up)}
CONCAT = {4: VersionChange(up=_concat_up)}
SELU = {6: VersionChange(up=_selu_up)}
CAST = {6: VersionChange(up=_cast_up)}
TILE = {6: VersionChange(up=_tile_up)}
PRELU = {7: VersionChange(up=_prelu_up)}
GEMM = {11: VersionChange(down=_gemm_down)}
UPSAMPLE = {7: VersionChange(up=_upsample_7_up), 10: VersionChange(up=_upsample_10_up)}
SCAN = {9: VersionChange(up=_scan_up)}
CONSTANT = {12: VersionChange(down=_constant_down)}
RESHAPE = {14: VersionChange(down=_reshape_down)}
SHAPE = {15: VersionChange(down=_shape_down)}
IS_TEST = VersionChange(up=_is_test_up)
"""That of 7, of what differs in training."""
SPATIAL = VersionChange(up=_spatial_up)
"""That of 9, of a mean for each activation."""


def _clip_up(edit: Edit) -> None:
    """Takes its bounds as inputs; those left out before were the extremes of float32."""
    dtype = edit.data().dtype
    if dtype is None:
        raise edit.fail("the type of its bounds is not known")
    limits = np.finfo(np.float32)
    bounds = {"min": edit.take("min", limits.min), "max": edit.take("max", limits.max)}
    values = [edit.constant(name, bound, dtype.numpy()) for name, bound in bounds.items()]
    edit.set_inputs(edit.input(0), *values)


def _clip_down(edit: Edit) -> None:
    """Takes bounds as attributes."""
    bounds = {"min": edit.constant_input(1, "bounds"), "max": edit.constant_input(2, "bounds")}
    extremes = edit.data().dtype is ir.DataType.FLOAT
    if not extremes and any(bound is None for bound in bounds.values()):
        raise edit.fail("a bound is left out, which means the extreme of float32 there")


def _split_2_up(edit: Edit) -> None:
    """Takes sizes as attribute only."""
    sizes = edit.constant_input(1, "sizes")
    edit.set_inputs(edit.input(0))
    if sizes is not None:
        edit.set(split=[int(size) for size in sizes])
    edit.set(axis=edit.attribute("axis", 0))


def _split_up(edit: Edit) -> None:
    """Says how many parts there are if it does not say how big they are."""
    if edit.input(1) is None:
        edit.set(num_outputs=len(edit.node.outputs))


def _split_down(edit: Edit) -> None:
    """Cuts into equal parts if it does not say how big they are."""
    count, shape = edit.take("num_outputs"), edit.data().shape
    if count is None:
        return
    size = shape[edit.attribute("axis", 0)] if shape is not None else None
    if not isinstance(size, int):
        raise edit.fail("it is not known whether its parts are equal")
    part = -(-size // count)
    if size % count:
        sizes = [max(0, min(part, size - i * part)) for i in range(count)]
        edit.set_inputs(edit.input(0), edit.constant("split", sizes))


def _pad_2_up(edit: Edit) -> None:
    """Calls its padding pads."""
    edit.set(pads=edit.take("paddings"))


def _pad_up(edit: Edit) -> None:
    """Takes pads and the value as inputs."""
    pads, fill = edit.take("pads"), edit.take("value", 0.0)
    dtype = edit.data().dtype
    value = None
    if edit.attribute("mode", "constant") == "constant" and fill != 0.0:
        if dtype is None:
            raise edit.fail("the type of its value is not known")
        value = edit.constant("value", fill, dtype.numpy())
    edit.set_inputs(edit.input(0), edit.constant("pads", pads), value)


def _pad_down(edit: Edit) -> None:
    """Takes pads and the value as attributes."""
    pads, value = edit.constant_input(1, "pads"), edit.constant_input(2, "values")
    edit.set(pads=numbers_of(pads) or [])
    if value is not None and value.size:
        edit.set(value=float(value.item()))
    edit.set_inputs(edit.input(0))


def _pad_18_down(edit: Edit) -> None:
    """Pads all axes."""
    axes, rank = numbers_of(edit.constant_input(3, "axes")), edit.rank()
    if axes is None:
        return
    pads = numbers_of(edit.constant_input(1, "pads"))
    if rank is None or pads is None:
        raise edit.fail("the rank of its input is not known")
    wide = [0] * (2 * rank)
    for index, axis in enumerate(axes):
        wide[axis % rank] = pads[index]
        wide[axis % rank + rank] = pads[index + len(axes)]
    edit.set_inputs(edit.input(0), edit.constant("pads", wide), edit.input(2))


def _pad_19_down(edit: Edit) -> None:
    """Has no mode wrap."""
    if edit.attribute("mode", "constant") == "wrap":
        raise edit.fail("its mode is wrap")


def _slice_down(edit: Edit) -> None:
    """Takes its bounds as attributes, and has no steps."""
    steps = numbers_of(edit.constant_input(4, "steps"))
    if steps is not None and any(step != 1 for step in steps):
        raise edit.fail("it has steps")


def _dropout_up(edit: Edit) -> None:
    """Takes the ratio as input."""
    if edit.output_used(1):
        raise edit.fail("its mask is read, which opset 12 defines differently")


def _dropout_down(edit: Edit) -> None:
    """Takes the ratio as attribute, and is for inference."""
    if edit.output_used(1):
        raise edit.fail("its mask is read, which opset 12 defines differently")
    training = edit.constant_input(2, "modes")
    if training is not None and training.any():
        raise edit.fail("it is in training")
    edit.take("seed")


def _softmax_up(edit: Edit) -> None:
    """Act along one axis, and before along all from it on as if they were one."""
    axis, data = edit.take("axis", 1), edit.data()
    if data.shape is not None:
        axis += len(data.shape) if axis < 0 else 0
        if axis < len(data.shape) and all(dim == 1 for dim in data.shape[axis + 1 :]):
            edit.set(axis=axis)
            return
    flat = edit.add("Flatten", [data], "flat", axis=axis)
    result = edit.add(edit.node.op_type, [flat], "result", axis=-1)
    sizes = [dim if isinstance(dim, int) and dim else -1 for dim in data.shape or [-1, -1]]
    if sizes.count(-1) < 2:
        # A 0 of a computed shape would copy a dimension of the matrix.
        edit.become("Reshape", result, edit.constant("shape", sizes))
    else:
        edit.become("Reshape", result, edit.add("Shape", [data], "shape"))


def _softmax_down(edit: Edit) -> None:
    """Act along all axes from one on, as if they were one."""
    rank, axis = edit.rank(), edit.take("axis", -1)
    if rank is None:
        raise edit.fail("the rank of its input is not known")
    axis %= max(rank, 1)
    if axis == rank - 1:
        edit.set(axis=axis)
        return
    # Its own axis goes last, and back again.
    order = [*range(axis), rank - 1, *range(axis + 1, rank - 1), axis]
    turned = edit.add("Transpose", [edit.data()], "turned", perm=order)
    result = edit.add(edit.node.op_type, [turned], "result", axis=rank - 1)
    edit.become("Transpose", result, perm=order)


def _batch_normalization_up(edit: Edit) -> None:
    """Says with an attribute whether it is in training, before with outputs."""
    if any(edit.output_used(index) for index in range(1, 5)):
        raise edit.fail("it is in training, which opset 14 defines differently")
    edit.node.resize_outputs(1)


def _group_normalization_up(edit: Edit) -> None:
    """Scales each channel, and before each group."""
    shape, groups = edit.data().shape, edit.attribute("num_groups")
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if not isinstance(channels, int):
        raise edit.fail("its number of channels is not known")
    if channels == groups:
        return
    inputs = [edit.input(0)]
    for what, value in (("scale", edit.input(1)), ("bias", edit.input(2))):
        column = edit.add(
            "Reshape", [value, edit.constant("column", [-1, 1])], f"{what}_column"
        )
        times = edit.constant("times", [1, channels // groups])
        wide = edit.add("Expand", [column, times], f"{what}_wide")
        inputs.append(edit.add("Reshape", [wide, edit.constant("flat", [-1])], what))
    edit.set_inputs(*inputs)


def _quantize_down(edit: Edit) -> None:
    """Have one scale for the whole tensor."""
    edit.take("axis")
    scale = edit.input(1)
    if scale is None or scale.shape is None or len(scale.shape) > 0:
        raise edit.fail("it is not known to have one scale for the whole tensor")


def _reduction_down(edit: Edit) -> None:
    """Means all axes where it has none."""
    keep_all, axes = edit.take("noop_with_empty_axes", 0), edit.constant_input(1, "axes")
    if axes is not None and axes.size:
        return
    if keep_all:
        raise edit.fail("it reduces no axis, which means all of them there")
    edit.set_inputs(edit.input(0))


CLIP = {11: VersionChange(_clip_up, _clip_down)}
SPLIT = {2: VersionChange(up=_split_2_up), 18: VersionChange(_split_up, _split_down)}
PAD = {
    2: VersionChange(up=_pad_2_up),
    11: VersionChange(_pad_up, _pad_down),
    18: VersionChange(down=_pad_18_down),
    19: VersionChange(down=_pad_19_down),
}
SLICE = {10: VersionChange(down=_slice_down)}
DROPOUT = {7: IS_TEST, 12: VersionChange(_dropout_up, _dropout_down)}
SOFTMAX = {13: VersionChange(_softmax_up, _softmax_down)}
BATCH_NORMALIZATION = {7: IS_TEST, 9: SPATIAL, 14: VersionChange(up=_batch_normalization_up)}
GROUP_NORMALIZATION = {21: VersionChange(up=_group_normalization_up)}
QUANTIZE = {13: VersionChange(down=_quantize_down)}
REDUCTION = {18: VersionChange(down=_reduction_down)}
REDUCE_SUM = {13: VersionChange(down=_reduction_down)}


def _resize_up(edit: Edit) -> None:
    """Names the rule by which coordinates and nearest pixels are found."""
    mode = edit.attribute("mode", "nearest")
    if mode == "nearest":
        edit.set(nearest_mode=_nearest_mode(edit))
    edit.set(coordinate_transformation_mode="asymmetric")
    roi = edit.constant("roi", [], np.float32)
    edit.set_inputs(edit.input(0), roi, edit.input(1))


def _nearest_mode(edit: Edit) -> str:
    # Resize-10 rounds down where it enlarges and up where it reduces.
    if edit.enlarges:
        return "floor"
    scales = edit.input(1)
    tensor = edit.constant_of(scales) if scales is not None else None
    if tensor is not None:
        factors = tensor.numpy()
        if (factors >= 1).all():
            return "floor"
        if (factors <= 1).all():
            return "ceil"
    raise edit.fail("its scales are not known to enlarge or to reduce along all axes")


def _resize_down(edit: Edit) -> None:
    """Has one rule for coordinates and one for nearest pixels."""
    rule = edit.take("coordinate_transformation_mode", "half_pixel")
    nearest = edit.take("nearest_mode", "round_prefer_floor")
    scales = edit.constant_input(2, "scales")
    if rule != "asymmetric" or scales is None or scales.size == 0 or edit.input(3) is not None:
        raise edit.fail("it is not asymmetric, or does not give scales")
    enlarges, reduces = (scales >= 1).all(), (scales <= 1).all()
    agrees = (nearest == "floor" and enlarges) or (nearest == "ceil" and reduces)
    mode = edit.attribute("mode", "nearest")
    if mode == "cubic" or (mode == "nearest" and not agrees):
        raise edit.fail(f"its mode is {mode} with {nearest}")
    edit.set_inputs(edit.input(0), edit.input(2))


def _resize_13_down(edit: Edit) -> None:
    """Demands a region of interest and scales, empty or not."""
    roi = edit.input(1) or edit.constant("roi", [], np.float32)
    scales = edit.input(2) or edit.constant("scales", [], np.float32)
    edit.set_inputs(edit.input(0), roi, scales, edit.input(3))


def _resize_19_down(edit: Edit) -> None:
    """Has no symmetric half pixels."""
    if edit.attribute("coordinate_transformation_mode", "") == "half_pixel_symmetric":
        raise edit.fail("its coordinates are half_pixel_symmetric")


def _roi_align_up(edit: Edit) -> None:
    """Shifts coordinates by half a pixel by default."""
    edit.set(coordinate_transformation_mode="output_half_pixel")


def _roi_align_down(edit: Edit) -> None:
    """Does not shift coordinates."""
    mode = edit.take("coordinate_transformation_mode", "half_pixel")
    if mode != "output_half_pixel":
        raise edit.fail(f"its coordinates are {mode}")


def _grid_sample_up(edit: Edit) -> None:
    """Names its modes for any number of dimensions."""
    mode = edit.attribute("mode", "bilinear")
    edit.set(mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


def _grid_sample_down(edit: Edit) -> None:
    """Names its modes for two dimensions."""
    mode = edit.attribute("mode", "linear")
    if edit.rank() != 4:
        raise edit.fail("before opset 20 it takes images only")
    edit.set(mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


def _dft_up(edit: Edit) -> None:
    """Takes the axis as input."""
    axis = edit.constant("axis", edit.take("axis", 1))
    edit.set_inputs(edit.input(0), edit.input(1), axis)


def _dft_down(edit: Edit) -> None:
    """Takes the axis as attribute."""
    axis = numbers_of(edit.constant_input(2, "axes"))
    edit.set_inputs(edit.input(0), edit.input(1))
    edit.set(axis=-2 if axis is None else axis[0])


def _scatter_up(edit: Edit) -> None:
    """Gave way to ScatterElements."""
    edit.node.op_type = "ScatterElements"


def _scatter_down(edit: Edit) -> None:
    """Was called Scatter."""
    edit.node.op_type = "Scatter"


RESIZE = {
    11: VersionChange(_resize_up, _resize_down),
    13: VersionChange(down=_resize_13_down),
    19: VersionChange(down=_resize_19_down),
}
ROI_ALIGN = {16: VersionChange(_roi_align_up, _roi_align_down)}
GRID_SAMPLE = {20: VersionChange(_grid_sample_up, _grid_sample_down)}
DFT = {20: VersionChange(_dft_up, _dft_down)}
SCATTER = {11: VersionChange(up=_scatter_up)}
SCATTER_ELEMENTS = {11: VersionChange(down=_scatter_down)}
