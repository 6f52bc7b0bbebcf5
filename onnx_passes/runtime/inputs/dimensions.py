"""Sizes for dynamic dimensions: formulas in their names, plans, and limits of memory.

A name may hold any text: what Python does not read as a formula is a name like any other.
"""

from __future__ import annotations

import ast
import itertools
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from operator import add, floordiv, mod, mul, neg, sub, truediv
from pathlib import Path

import onnx_ir as ir

from onnx_passes.errors import ModelError, ReferenceDataError, did_you_mean
from onnx_passes.model.load import LONGEST
from onnx_passes.ops.input_hints import StaticShape, static_shape

_LARGEST = 1 << 63  # of numerators and denominators
_STEEPEST = 64  # of exponents
_NAME = re.compile(r"[^\W\d][\w.]*")
_Compute = Callable[..., Fraction | int | None]


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1 or abs(exponent) > _STEEPEST:
        return None
    return Fraction(base**exponent.numerator)


def _root(value: Fraction) -> Fraction | None:
    if value < 0:
        return None
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    return root if root * root == value else None


def _largest(*values: Fraction) -> Fraction:
    return max(values)


def _smallest(*values: Fraction) -> Fraction:
    return min(values)


_OPERATIONS: Mapping[type[ast.AST], _Compute] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: truediv,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
    ast.Pow: _power,
    ast.USub: neg,
}
_FUNCTIONS: Mapping[str, _Compute] = {
    "max": _largest,
    "min": _smallest,
    "floor": math.floor,
    "ceil": math.ceil,
    "ceiling": math.ceil,
    "mod": mod,
    "sqrt": _root,
}


def size_of(dim: int | str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a dimension; None if it is not determined by ``sizes``.

    A dimension is a size, or the name or formula of a dynamic dimension.
    """
    if isinstance(dim, int):
        return dim
    if dim in sizes:
        return sizes[dim]
    formula = _parse(dim)
    # A text of numbers alone, as "3", is a name: engines do not read it as a size.
    value = _value(formula, sizes) if formula is not None and _names(formula) else None
    whole = value is not None and value.denominator == 1 and value >= 0
    return value.numerator if value is not None and whole else None


def names_in(dim: str) -> list[str]:
    """Return the names that a dimension is a formula of; its own if it is not a formula."""
    formula = _parse(dim)
    return sorted(set() if formula is None else _names(formula)) or [dim]


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr | None:
    """Return a formula of names; None for other texts, and those that nest too deeply."""
    try:
        found = ast.parse(text.strip() if len(text) <= LONGEST else "", mode="eval").body
        return found if _is_formula(found) else None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _is_formula(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left, operator, right):
            return type(operator) in _OPERATIONS and _is_formula(left) and _is_formula(right)
        case ast.UnaryOp(ast.USub(), operand):
            return _is_formula(operand)
        case ast.Call(ast.Name(name), operands, []):
            return name.lower() in _FUNCTIONS and all(map(_is_formula, operands))
        case ast.Constant(value):
            return type(value) is int
    return _NAME.fullmatch(ast.unparse(node)) is not None


def _names(node: ast.expr) -> set[str]:
    """Return the names in a formula, which may have dots."""
    match node:
        case ast.BinOp(left, _, right):
            return _names(left) | _names(right)
        case ast.UnaryOp(_, operand):
            return _names(operand)
        case ast.Call(_, operands, _):
            return set[str]().union(*map(_names, operands))
        case ast.Constant():
            return set()
    return {ast.unparse(node)}


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Fraction | None:
    """Return what a formula gives; None if a name is not known, or it gives no number."""
    operands: list[ast.expr] = []
    match node:
        case ast.BinOp(left, operator, right):
            operands, compute = [left, right], _OPERATIONS[type(operator)]
        case ast.UnaryOp(operator, operand):
            operands, compute = [operand], _OPERATIONS[type(operator)]
        case ast.Call(ast.Name(name), given, _):
            operands, compute = given, _FUNCTIONS[name.lower()]
        case ast.Constant(int(number)):
            return Fraction(number)
        case _:
            known = sizes.get(ast.unparse(node))
            return None if known is None else Fraction(known)
    values = [_value(operand, sizes) for operand in operands]
    found = None
    if None not in values:
        with suppress(ZeroDivisionError, TypeError, ValueError):  # TypeError: other operands
            found = compute(*values)
    value = None if found is None else Fraction(found)
    fits = value is not None and max(abs(value.numerator), value.denominator) <= _LARGEST
    return value if fits else None


Dims = Mapping[str, Sequence[int] | int]

# Where pictures enter, halving five times must leave something.
_SPATIAL = (64, 96, 128, 160)
_SPATIAL_UNIT = 32
_CHANNELS = (1, 3, 4)
# Windows of 7 and 8, patches of 14 and 16, and frames of sound.
_SCALES = (7, 8, 16, 256, 4096)
_BATCH = (2, 3, 4, 6)
# Without common factors, and one of them even.
_OTHER = (5, 8, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
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

    An unnamed dimension is named after its input and axis, as in ``x[0]``. ``shapes`` has per
    input a size, a name, or an expression of names for each dimension. ``kinds`` are "batch",
    "spatial" or "other"; ``unnamed`` are the names made up here.
    """

    shapes: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    unnamed: set[str] = field(default_factory=set)

    def resolve(self, name: str, sizes: Mapping[str, int]) -> StaticShape:
        """Return the shape of an input for given sizes of the dynamic dimensions."""
        found = (size_of(dim, sizes) for dim in self.shapes[name])
        return tuple(_ELEMENTS if size is None else size for size in found)

    def open(self, dims: Dims) -> list[str]:
        """Return the dynamic dimensions whose size neither a name nor a shape gives."""
        settled = {name for shape in map(self.shapes.get, dims) for name in shape or ()}
        return [name for name in self.kinds if name not in {*dims, *settled}]

    def bound(self, dims: Dims) -> dict[str, int]:
        """Return the sizes of dynamic dimensions that given shapes of inputs have."""
        return {
            dim: size
            for name, shape in self.whole(dims).items()
            for dim, size in zip(self.shapes[name], shape, strict=False)
            if isinstance(dim, str) and dim in self.kinds
        }

    def whole(self, dims: Dims) -> dict[str, StaticShape]:
        """Return the shapes of inputs among sizes that are given."""
        return {
            name: tuple(shape)
            for name, shape in dims.items()
            if name in self.shapes and name not in self.kinds and not isinstance(shape, int)
        }


def symbols_of_model(model: ir.Model) -> Symbols:
    """Collect the dynamic dimensions of all inputs without a default."""
    return symbols_of([v for v in model.graph.inputs if not v.is_initializer()], model)


def symbols_of(inputs: Sequence[ir.Value], model: ir.Model) -> Symbols:
    """Collect the dynamic dimensions of ``inputs``; what defaults of others settle is fixed.

    Operators of the model show which inputs are pictures.
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

    ``merged`` dimensions have the size of another, ``equal`` ones all one size, and ``ones``
    size 1. ``scale`` multiplies sizes other than those of a batch.
    """

    merged: Mapping[str, str] = field(default_factory=dict)
    equal: frozenset[str] = frozenset()
    ones: frozenset[str] = frozenset()
    scale: int = 1

    def sizes(self, symbols: Symbols, dims: Dims, sample: int) -> dict[str, int]:
        """Return a size for every dynamic dimension.

        Sizes differ from ``sample`` to sample. ``dims`` has one size, or one a sample.
        """
        given = symbols.bound(dims) | {
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
        return sizes | totals(sizes, given)


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


def totals(sizes: Mapping[str, int], given: Collection[str]) -> dict[str, int]:
    """Return sizes of dimensions that decoders name as the sum of two others."""
    past = next((name for name in sizes if "past" in name and "total" not in name), None)
    now = next((n for n in sizes if "seq" in n and "past" not in n and "total" not in n), None)
    if past is None or now is None:
        return {}
    total = sizes[past] + sizes[now]
    return {name: total for name in sizes if "total" in name and name not in given}


def check_dims(dims: Dims, symbols: Symbols, whole: Mapping[str, StaticShape]) -> None:
    """Check ``dims``, whose shapes of inputs are in ``whole``; else ReferenceDataError."""
    known = [*symbols.kinds, *symbols.shapes]
    for name, size in dims.items():
        if name not in known:
            raise ReferenceDataError(
                f"no input has a dynamic dimension {name!r}",
                help=_fixed_or_named(name, symbols) or did_you_mean(name, known),
            )
        if isinstance(size, int) and name not in symbols.kinds:
            dynamic = ", ".join(dim for dim in symbols.shapes[name] if isinstance(dim, str))
            raise ReferenceDataError(
                f"{name!r} is an input, and {size} is not a shape",
                help=f"name a dynamic dimension of it: {dynamic or 'it has none'}",
            )
        sizes = [size] if isinstance(size, int) else size
        if (not sizes and name not in whole) or any(entry < 0 for entry in sizes):
            raise ReferenceDataError(f"{name!r} cannot have size {size!r}")


def _fixed_or_named(name: str, symbols: Symbols) -> str | None:
    """Say why ``x[0]`` does not mean a dimension; None if that is not what is wrong."""
    place = re.fullmatch(r"(.+)\[(\d{1,2})\]", name)
    shape = symbols.shapes.get(place[1], ()) if place else ()
    if place and int(place[2]) < len(shape):
        dim = shape[int(place[2])]
        return f"it is called {dim!r}" if isinstance(dim, str) else f"it is fixed at {dim}"
    return None if symbols.kinds else "all dimensions of the inputs are fixed"


_SHARE = 8
"""What generated inputs may take: one part in so many of the memory.

A run holds several samples, and what is computed of them.
"""

_CGROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_UNKNOWN = 1 << 40
_HELP = "give smaller sizes under 'reference.dims', inputs of your own with --inputs, "
_HELP += "or --no-verify, which runs nothing"


@cache
def machine_memory() -> int:
    """Return the bytes of memory that this process may have; a large number if not known."""
    known = [_UNKNOWN]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _CGROUPS:
        try:
            known.append(int(path.read_text()))
        except (OSError, ValueError):  # no such group, or one without a limit
            continue
    return min(size for size in known if size > 0)


def fits_memory(inputs: Iterable[ir.Value], shapes: Mapping[str, StaticShape]) -> bool:
    """Whether one sample of these shapes takes at most an eighth of the memory."""
    return _input_bytes(inputs, shapes) <= machine_memory() // _SHARE


def too_large(inputs: Iterable[ir.Value], shapes: Mapping[str, StaticShape]) -> ModelError:
    """Return the error of inputs that do not fit into the memory."""
    sizes = {str(value.name): _input_bytes([value], shapes) for value in inputs}
    largest = max(sizes, key=lambda name: sizes[name])
    share = f", {_text(machine_memory() // _SHARE)} of it for generated inputs"
    share += f"; the largest is {largest!r}"
    return _error("the inputs of the model take", sum(sizes.values()), share)


def check_memory(model: ir.Model) -> None:
    """Raise ModelError if one value alone takes more than all of the memory."""
    memory = machine_memory()
    seen: set[tuple[int, ir.DataType | None]] = set()  # most values share one shape
    for node in model.graph:
        for value in node.outputs:
            kind = (id(value.shape), value.dtype)
            if kind in seen:
                continue
            seen.add(kind)
            shape = static_shape(value)
            if shape is None:
                continue
            size = math.prod(shape) * _bits(value.dtype) // 8
            if size > memory:
                raise _error(f"the value {value.name!r} ({node.op_type}) takes", size)


def _error(what: str, size: int, share: str = "") -> ModelError:
    memory = _text(machine_memory())
    return ModelError(
        f"{what} {_text(size)}, and this machine has {memory} of memory{share}", help=_HELP
    )


def _input_bytes(inputs: Iterable[ir.Value], shapes: Mapping[str, StaticShape]) -> int:
    return sum(
        math.prod(shapes[str(value.name)]) * _bits(value.dtype) // 8 for value in inputs
    )


def _bits(dtype: ir.DataType | None) -> int:
    # numpy holds strings by reference.
    return 64 if dtype is None or dtype == ir.DataType.STRING else dtype.bitwidth


def _text(size: float) -> str:
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.3g} {units[0]}"
