"""Sizes for dynamic dimensions: different where the model allows it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.errors import ReferenceDataError
from onnx_passes.ops.input_hints import StaticShape, static_shape
from onnx_passes.runtime.inputs.dimension_formulas import names_in, size_of
from onnx_passes.runtime.interface import did_you_mean

Dims = Mapping[str, Sequence[int] | int]

# Where pictures enter, halving five times must leave something.
_SPATIAL = (64, 96, 128, 160)
_SPATIAL_UNIT = 32
_CHANNELS = (1, 3, 4)
# Windows of 7 and 8, patches of 14 and 16, and frames of sound.
_SCALES = (7, 8, 16, 256, 4096)
_BATCH = (2, 3, 4, 6)
_OTHER = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
# Of a formula that gives no size, and of the elements of a sequence: these may differ in rank,
# so that it seldom declares one.
_ELEMENTS = 5
_USUAL_RANK = 2
_MOST_PAIRS = 28
_EQUAL = (4, 6, 8)
_PICTURE_OPERATORS = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "Resize"})


@dataclass
class Symbols:
    """The dynamic dimensions of the inputs of a model.

    An unnamed dimension is named after its input and axis, as in ``x[0]``.

    Attributes:
        shapes: Per input, each dimension as a size, the name of a dynamic dimension, or an
            expression of such names.
        kinds: Per name, "batch", "spatial" or "other".
        unnamed: The names that were made up here.
    """

    shapes: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    unnamed: set[str] = field(default_factory=set)

    def resolve(self, name: str, sizes: Mapping[str, int]) -> StaticShape:
        """Return the shape of an input for given sizes of the dynamic dimensions.

        Args:
            name: Name of the input.
            sizes: Sizes of dynamic dimensions by name.
        """
        found = (size_of(dim, sizes) for dim in self.shapes[name])
        return tuple(_ELEMENTS if size is None else size for size in found)


def symbols_of(inputs: Sequence[ir.Value], model: ir.Model) -> Symbols:
    """Collect the dynamic dimensions of ``inputs``; what defaults of others settle is fixed.

    Args:
        inputs: The inputs.
        model: The model, whose operators show which inputs are pictures.
    """
    symbols = Symbols()
    has_pictures = any(n.op_type in _PICTURE_OPERATORS for n in model.graph.all_nodes())
    settled = _default_sizes(model)
    for value in inputs:
        assert value.name is not None
        shape = value.shape
        if shape is None and not isinstance(value.type, ir.TensorType):
            symbols.shapes[value.name] = (_ELEMENTS,)
            continue
        shape = ir.Shape([None] * _likely_rank(value)) if shape is None else shape
        dims: list[int | str] = []
        for axis, dim in enumerate(shape):
            if isinstance(dim, int):
                dims.append(dim)
                continue
            if (size := size_of(dim.value or "", settled)) is not None:
                dims.append(size)
                continue
            name = dim.value or f"{value.name}[{axis}]"
            if dim.value is None:
                symbols.unnamed.add(name)
            dims.append(name)
            kind = _kind(name, axis, shape, has_pictures=has_pictures)
            for atom in names_in(name):
                symbols.kinds.setdefault(atom, kind)
        symbols.shapes[value.name] = tuple(dims)
    return symbols


def _default_sizes(model: ir.Model) -> dict[str, int]:
    """Return the sizes of dimensions that an input with a default names."""
    found: dict[str, int] = {}
    for value in model.graph.inputs:
        tensor = value.const_value
        if tensor is not None and value.shape is not None:
            for dim, size in zip(value.shape, tensor.shape.numpy(), strict=False):
                if isinstance(dim, ir.SymbolicDim) and dim.value:
                    found[dim.value] = size
    return found


def _likely_rank(value: ir.Value) -> int:
    """Return a rank that the readers of an input may take, as it declares none."""
    found: list[int] = []
    for node, _ in value.uses():
        if node.op_type == "Shape" and not node.attributes:
            found += static_shape(node.outputs[0]) or ()
        perm, window = (node.attributes.get_ints(n, ()) for n in ("perm", "kernel_shape"))
        found += [len(perm), len(window) + 2 if window else 0]
        found += [len(v.shape) for v in node.inputs if v is not None and v.shape is not None]
    return max(found, default=0) or _USUAL_RANK


def _kind(name: str, axis: int, shape: ir.Shape, *, has_pictures: bool) -> str:
    if has_pictures and len(shape) >= 4:
        channels_last = shape[-1] in _CHANNELS and shape[1] not in _CHANNELS
        if 0 < axis < len(shape) - 1 if channels_last else axis > 1:
            return "spatial"
    lowered = name.lower()
    if "batch" in lowered or lowered in ("n", "b") or (axis == 0 and len(shape) >= 2):
        return "batch"
    return "other"


@dataclass(frozen=True)
class SizePlan:
    """Which dynamic dimensions have one size.

    Attributes:
        merged: Dimensions with the size of another.
        equal: Dimensions that all have one size.
        ones: Dimensions of size 1.
        scale: What sizes other than those of a batch are multiplied by.
    """

    merged: Mapping[str, str] = field(default_factory=dict)
    equal: frozenset[str] = frozenset()
    ones: frozenset[str] = frozenset()
    scale: int = 1

    def sizes(self, symbols: Symbols, dims: Dims, sample: int) -> dict[str, int]:
        """Return a size for every dynamic dimension.

        Args:
            symbols: The dynamic dimensions.
            dims: Sizes that the user gave, one or one a sample.
            sample: Which sample; sizes differ from one to the next.
        """
        given = {
            name: size if isinstance(size, int) else size[sample % len(size)]
            for name, size in dims.items()
            if name in symbols.kinds
        }
        sizes = _distinct(symbols, sample)
        sizes |= dict.fromkeys(self.equal, _EQUAL[sample % len(_EQUAL)])
        sizes |= dict.fromkeys(self.ones, 1)
        if self.scale > 1:
            pictured = _of_kind(symbols.kinds, "spatial")
            sizes |= dict.fromkeys(pictured, _SPATIAL_UNIT * (sample + 1))
            others = _of_kind(symbols.kinds, "other")
            sizes |= {name: sizes[name] * self.scale for name in others | pictured}
        sizes |= given
        sizes |= {
            name: sizes[other] for name, other in self.merged.items() if name not in given
        }
        return sizes | _totals(sizes, given)


def plans(symbols: Symbols) -> Iterator[SizePlan]:
    """Yield plans, the most informative first."""
    kinds = symbols.kinds
    yield SizePlan()
    if not kinds:
        return
    yield SizePlan(merged=_aligned(symbols))
    pairs = itertools.combinations(kinds, 2)
    for one, other in itertools.islice(pairs, _MOST_PAIRS):
        if kinds[one] == kinds[other] or {one, other} & symbols.unnamed:
            yield SizePlan(merged={other: one})
    yield SizePlan(equal=frozenset(symbols.unnamed - _of_kind(kinds, "spatial")))
    yield SizePlan(ones=_of_kind(kinds, "batch"))
    yield SizePlan(equal=_of_kind(kinds, "other"))
    yield from (SizePlan(scale=scale) for scale in _SCALES)
    yield SizePlan(equal=frozenset(kinds))
    yield SizePlan(ones=frozenset(kinds))


def _of_kind(kinds: Mapping[str, str], kind: str) -> frozenset[str]:
    return frozenset(name for name, own in kinds.items() if own == kind)


def _aligned(symbols: Symbols) -> dict[str, str]:
    """Merge unnamed dimensions at the same place from the right, where operators broadcast."""
    first: dict[int, str] = {}
    merged: dict[str, str] = {}
    for shape in symbols.shapes.values():
        for place, dim in enumerate(reversed(shape)):
            if isinstance(dim, str) and dim in symbols.unnamed:
                other = first.setdefault(place, dim)
                if other != dim:
                    merged[dim] = other
    return merged


def _distinct(symbols: Symbols, sample: int) -> dict[str, int]:
    pools = {"spatial": _SPATIAL, "batch": _BATCH, "other": _OTHER}
    counts = dict.fromkeys(pools, sample)
    sizes: dict[str, int] = {}
    for name, kind in symbols.kinds.items():
        pool = pools[kind]
        sizes[name] = pool[counts[kind] % len(pool)]
        counts[kind] += 1
    return sizes


def _totals(sizes: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """Return sizes of dimensions that decoders name as the sum of two others."""
    past = next((name for name in sizes if "past" in name and "total" not in name), None)
    now = next((n for n in sizes if "seq" in n and "past" not in n and "total" not in n), None)
    if past is None or now is None:
        return {}
    total = sizes[past] + sizes[now]
    return {name: total for name in sizes if "total" in name and name not in given}


def check_dims(dims: Dims, symbols: Symbols, whole: Mapping[str, StaticShape]) -> None:
    """Check what the user gave.

    Args:
        dims: Sizes by name of a dynamic dimension, or shapes by name of an input.
        symbols: The dynamic dimensions.
        whole: The entries of ``dims`` that are shapes of inputs.

    Raises:
        ReferenceDataError: A name is not the model's, or a size is not a size.
    """
    known = [*symbols.kinds, *symbols.shapes]
    for name, size in dims.items():
        if name not in known:
            raise ReferenceDataError(
                f"no input has a dynamic dimension {name!r}", help=did_you_mean(name, known)
            )
        if isinstance(size, int) and name not in symbols.kinds:
            raise ReferenceDataError(
                f"{name!r} is an input, and {size} is not a shape",
                help=f"give all of its dimensions, or name one, as in '{name}[0]'",
            )
        sizes = [size] if isinstance(size, int) else size
        if (not sizes and name not in whole) or any(entry < 0 for entry in sizes):
            raise ReferenceDataError(f"{name!r} cannot have size {size!r}")
