"""Values recorded while a model ran, their sizes, and what comparisons of them show."""

from __future__ import annotations

import errno
import math
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of, widen
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_nodes, captured_values, shadows_operator
from onnx_passes.runtime.engine_base import Data, Feeds, GeneratedFeeds
from onnx_passes.runtime.inputs.dimensions import size_of
from onnx_passes.verify.node_equality import constant_tensor, never_iterates


def choose_unrecorded(
    model: ir.Model,
    samples: Sequence[Feeds],
    needed: Collection[str],
    limit: int,
    seen: Mapping[str, int] | None = None,
) -> set[str]:
    """Choose what not to record, so that the rest of all samples fits a limit.

    Small values are worth more: at the same price in memory there are more of them, and the
    next pass may need any. Sizes are as far as shapes are noted: an unknown dimension counts
    as one, a value of unknown rank as nothing. ``limit`` is in bytes, of all values together.
    ``seen`` has the bytes of values in one sample of an earlier run.
    """
    sizes: dict[str, int] = {}
    values = [v for node in model.graph for v in node.outputs if v.name]
    for feeds in samples:
        known = _sizes(model.graph.inputs, feeds)
        for value in values:
            name = str(value.name)
            size = seen[name] if seen and name in seen else _bytes(value, known)
            sizes[name] = sizes.get(name, 0) + size
    left = limit - sum(sizes.get(name, 0) for name in needed)
    hidden: set[str] = set()
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        if name not in needed:
            left -= size
            if left < 0 and size:
                hidden.add(name)
    return hidden


def _sizes(inputs: Sequence[ir.Value], feeds: Feeds) -> dict[str, int]:
    """Return the sizes of the dimensions that inputs name."""
    found: dict[str, int] = {}
    for value in inputs:
        array = feeds.get(str(value.name))
        if value.shape is not None and isinstance(array, np.ndarray):
            dims = zip(value.shape, array.shape, strict=False)
            found |= {str(dim.value): n for dim, n in dims if isinstance(dim, ir.SymbolicDim)}
    return found


def _bytes(value: ir.Value, sizes: dict[str, int]) -> int:
    if value.shape is None or value.dtype is None or value.dtype is ir.DataType.STRING:
        return 0
    elements = 1
    for dim in value.shape:
        elements *= dim if isinstance(dim, int) else _known(str(dim.value), sizes)
    return math.ceil(elements * value.dtype.bitwidth / 8)


def _known(dim: str, sizes: dict[str, int]) -> int:
    if dim not in sizes:  # parsing takes longer than all the rest
        size = size_of(dim, sizes)
        sizes[dim] = 1 if size is None else size
    return sizes[dim]


class Spill:
    """A folder for arrays that do not fit memory; it goes with the last recording in it."""

    def __init__(self) -> None:
        """Make no folder yet."""
        self._folder: Path | None = None
        self.files = 0

    def write(self, array: Array) -> Array:
        """Write an array, and return it mapped from its file."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="onnx-passes-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / f"{self.files}.npy"
        self.files += 1
        try:
            np.save(path, array, allow_pickle=False)
        except OSError as error:  # NumPy gives neither a number nor a file
            told = error.strerror or str(error)
            raise OSError(error.errno or errno.ENOSPC, told, str(path)) from error
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped


class Recording(Mapping[str, Array]):
    """Arrays by name, in memory up to a limit, beyond it in files that are memory-mapped.

    ``limit`` is the bytes kept in memory. ``spill`` is where the rest goes; None for a place
    of its own. ``label`` names a run on the arrays; None if they follow from given inputs.
    """

    def __init__(
        self, limit: int, spill: Spill | None = None, label: str | None = None
    ) -> None:
        """Start empty."""
        self._limit, self._label = limit, label
        self._held = 0
        self._arrays: dict[str, Array] = {}
        self._spill = spill or Spill()

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def row(self, names: Iterable[str]) -> Feeds:
        """Return some of the arrays, as inputs of a part."""
        values = {name: self._arrays[name] for name in names}
        return values if self._label is None else GeneratedFeeds(values, self._label)

    @property
    def spilled(self) -> int:
        """Number of arrays that went to disk."""
        return self._spill.files

    def following(self, values: Mapping[str, Data], names: Collection[str]) -> Recording:
        """Return what is known of the next model: new values, and old ones of ``names``."""
        found = Recording(self._limit, self._spill, self._label)
        found._arrays = {k: v for k, v in self._arrays.items() if k in names}
        found.update(values)
        return found

    def update(self, values: Mapping[str, Data]) -> None:
        """Record tensors; other kinds of data are left out."""
        for name in values:
            self._arrays.pop(name, None)
        self._count()
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                self._arrays[name] = self._place(value)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all but these names."""
        wanted = set(names)
        self._arrays = {k: v for k, v in self._arrays.items() if k in wanted}
        self._count()

    def _count(self) -> None:
        self._held = sum(a.nbytes for a in self._arrays.values() if not _mapped(a))

    def _place(self, array: Array) -> Array:
        if _mapped(array):
            return array
        if self._held + array.nbytes <= self._limit or not _can_be_mapped(array):
            self._held += array.nbytes
            return array
        return self._spill.write(array)


def record_for_all(recordings: Sequence[Recording], values: Mapping[str, Data]) -> None:
    """Record tensors that are the same for every sample, once in all and in files."""
    spill = recordings[0]._spill
    shared = {
        name: spill.write(value)
        if isinstance(value, np.ndarray) and _can_be_mapped(value)
        else value
        for name, value in values.items()
    }
    for recording in recordings:
        recording.update(shared)


def _mapped(array: Array) -> bool:
    return isinstance(array, np.memmap)


def _can_be_mapped(array: Array) -> bool:
    # Objects (strings) cannot be mapped, and custom dtypes come back as plain bytes.
    return array.dtype.kind in "biufc" and array.nbytes > 0


SMALL = 1 << 20


def inlined(model: ir.Model) -> ir.Model:
    """Return a model without functions, so that their bodies are compared node by node.

    onnx-ir does that, and not the code of the pass ``inline-functions``: what is wrong there
    must not be repeated here. A model without functions is returned itself. Calls stay if the
    function uses other versions of operators, if they leave inputs out, or if an engine may
    take them for an operator. They count as one node each.
    """
    if not model.functions:
        return model
    copy = copy_model(model)
    short = {
        node.op_identifier()
        for node in all_nodes(copy)
        if (called := copy.functions.get(node.op_identifier())) is not None
        and not _is_complete(node, called)
    }

    def admits(function: ir.Function) -> bool:
        imports = copy.opset_imports
        same = all(imports.get(d, v) == v for d, v in function.opset_imports.items())
        key = function.identifier()
        return same and key not in short and not shadows_operator(key, imports)

    try:
        InlinePass(admits)(copy)
    except (ValueError, ir.passes.PassError):  # a cycle, or what it does not know
        return model
    return copy


def _is_complete(node: ir.Node, function: ir.Function) -> bool:
    given = len(node.inputs) == len(function.inputs) and None not in node.inputs
    passed = not any(isinstance(a.value, ir.Graph) for a in node.attributes.values())
    needed = {a.name for a in function.attributes.values() if a.value is None}
    return given and passed and needed <= node.attributes.keys()


def expose_values(
    model: ir.Model,
    *,
    weights: bool = True,
    hidden: Collection[str] = (),
    needed: Collection[str] = (),
) -> ir.Model:
    """Return a copy of a model whose outputs are all values of its main graph.

    ``weights`` includes those that the graph computes from no input, if they are over 1 MiB or
    of unknown size. They are the same for every sample. ``needed`` names those wanted in any
    case, ``hidden`` values that are not.
    """
    copy = model.clone()  # not by the copier that passes share
    graph = copy.graph
    known = set(graph.outputs)
    if not weights:
        known |= {value for value in _computed_weights(graph) if value.name not in needed}
    graph.outputs.extend(
        value
        for node in graph
        for value in node.outputs
        if value.name
        and value not in known
        and value.name not in hidden
        and constant_tensor(value) is None
    )
    return copy


def computed_weights(model: ir.Model, names: Collection[str]) -> frozenset[str]:
    """Return the names of large values that a model computes from no input."""
    made = (value for node in model.graph for value in node.outputs if value.name in names)
    if not any(byte_size(value) > SMALL for value in made):
        return frozenset()
    found = _computed_weights(model.graph)
    return frozenset(str(v.name) for v in found if v.name in names and byte_size(v) > SMALL)


def _computed_weights(graph: ir.Graph) -> set[ir.Value]:
    fixed: set[ir.Value] = set()
    for node in graph:
        read = [v for v in (*node.inputs, *captured_values(node)) if v is not None]
        if all(value in fixed or constant_tensor(value) is not None for value in read):
            fixed.update(node.outputs)
    return {value for value in fixed if not _is_small(value)}


def _is_small(value: ir.Value) -> bool:
    return -1 < byte_size(value) <= SMALL


def byte_size(value: ir.Value) -> int:
    """Return the bytes of a value whose type and shape are known; -1 for others."""
    dtype = value.dtype
    if value.shape is None or dtype is None or not value.shape.is_static():
        return -1
    if dtype is ir.DataType.STRING:
        return -1
    return math.ceil(math.prod(value.shape.numpy()) * dtype.bitwidth / 8)


def value_names(model: ir.Model) -> list[str]:
    """Return the names of the inputs and of all values of the main graph."""
    names = [str(v.name) for v in model.graph.inputs]
    return names + [str(v.name) for node in model.graph for v in node.outputs if v.name]


_OF_SHAPES = frozenset(("ConstantOfShape", "Shape", "Size"))
_FIRST_ALONE = frozenset(("CastLike", "Expand", "Reshape", "Tile"))
"""Operators whose other operands decide the type or shape, and no element."""


def is_informative(arrays: Sequence[Array], varies: Callable[[], bool]) -> bool:
    """Whether a value that was compared on some samples can show a fault.

    A value that follows from shapes and constants alone is what it is for all data, so that
    one comparison is enough, even if it has no element. One that depends on data must have an
    element that is finite, and two that differ. On the first sample, whose numbers are not
    large, the other may be an infinity, as in masks. ``arrays`` are the value on each sample.
    ``varies`` says whether it depends on data, and is only called if that matters.
    """
    return (
        any(_varies(array) for array in arrays)
        or _differ(arrays)
        or any(_varies(array, masks=True) for array in arrays[:1])
        or not varies()
    )


def _varies(array: Array, *, masks: bool = False) -> bool:
    flat = array.reshape(-1)
    if flat.size < 2:
        return False
    if kind_of(flat.dtype) not in ("float", "complex"):
        return bool((flat != flat[0]).any())
    head = widen(flat[:1024])
    finite = head[np.isfinite(head)]
    if finite.size > 1 and (finite != finite[0]).any():
        return True
    wide = widen(flat)
    finite = wide[np.isfinite(wide)]
    others = wide[~np.isnan(wide)] if masks else finite
    return bool(finite.size and (others != finite[0]).any())


def _differ(arrays: Sequence[Array]) -> bool:
    """Whether the value differs on another sample, and is finite on both."""
    firsts = set()
    for array in arrays:
        if array.size and kind_of(array.dtype) in ("float", "complex"):
            wide = widen(array.reshape(-1)[:1])
            if np.isfinite(wide).all():
                firsts.add(wide.item())
        elif array.size:
            firsts.add(array.reshape(-1)[0])
    return len(firsts) > 1


@dataclass(frozen=True)
class ValueSource:
    """What values are drawn from.

    Floats may be ``positive``, so that roots and logarithms are finite. ``integers`` that may
    be sizes or indices grow by 0 or 1; with ``special`` they are any small ones, and every
    second float is NaN, infinite, zero or large. ``negated`` floats are those that there were,
    negated; with ``positive`` all are drawn, and negative.
    """

    positive: bool = False
    integers: bool = True
    special: bool = False
    negated: bool = False

    def in_turn(self, place: int) -> ValueSource:
        """Return where one of several conditions comes from, so that they are independent."""
        flips = self.integers or self.negated
        flips = (flips, self.positive, flips != self.positive)[place % 3]
        return replace(self, integers=flips, negated=False)


DRAWS = (
    ValueSource(),
    ValueSource(integers=False),
    ValueSource(positive=True),
    ValueSource(positive=True, integers=False),
)
DRAWS_OF_OTHERS = (
    ValueSource(integers=False),
    ValueSource(integers=False, positive=True),
    ValueSource(integers=False, negated=True),
    ValueSource(integers=False, negated=True, positive=True),
)
"""For values that recorded ones may lack: sizes, shapes and indices are never drawn."""
DRAWS_OF_SPECIALS = (ValueSource(special=True, integers=False), ValueSource(special=True))
_SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30)


def random_like(array: Array, seed: str, draw: ValueSource = DRAWS[0]) -> Array:
    """Return drawn values of the type and shape of others; ``seed`` decides them."""
    kind = kind_of(array.dtype)
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    if kind == "bool" and array.size == 1:  # drawn by chance, it may be the same each time
        return np.asarray(np.logical_not(array) if draw.integers or draw.negated else array)
    if kind == "bool":
        return _with_whole_rows(rng.random(array.shape) < 0.5)
    if kind == "int" and draw.integers and array.dtype.kind in "iu":
        if draw.special:
            lowest = -8 if array.dtype.kind == "i" else 0
            return np.asarray(rng.integers(lowest, 8, array.shape).astype(array.dtype))
        more = rng.integers(0, 2, array.shape).astype(array.dtype)
        return np.asarray(np.where((array > 0) & (array < 1 << 6), array + more, array))
    if kind != "float":
        return array
    if draw.negated and not draw.positive:
        return np.asarray(np.negative(array))
    drawn = np.asarray(rng.standard_normal(array.shape))
    if draw.special:
        drawn.reshape(-1)[::2] = np.resize(_SPECIALS, (drawn.size + 1) // 2)
    with np.errstate(over="ignore", invalid="ignore"):
        sign = -1 if draw.negated else 1
        found = sign * np.abs(drawn) if draw.positive else drawn
        return np.asarray(found, array.dtype)  # arithmetic makes scalars of one element


def _with_whole_rows(array: Array) -> Array:
    """Return booleans with a first row that is false, if there are several: an empty mask."""
    if array.ndim and array.shape[-1] < array.size:
        array.reshape(-1, array.shape[-1])[0] = False
    return array


def make_ties(draw: Mapping[str, Array], names: Collection[str]) -> dict[str, Array]:
    """Return drawn floats of ``names`` with equal elements, as far as their shapes allow.

    What is drawn for each by itself shows no ties of a comparison.
    """
    floats = [name for name in sorted(names) if kind_of(draw[name].dtype) == "float"]
    if len(floats) < 2:
        return {}
    least = min((draw[name] for name in floats), key=lambda one: (one.ndim, one.size))
    found = {}
    for name in floats:
        with suppress(ValueError):  # shapes that do not broadcast
            like = draw[name]
            found[name] = np.broadcast_to(least, like.shape).astype(like.dtype)
    return found


def dependent_on_data(model: ir.Model) -> set[str]:
    """Return the names of the values that depend on more than shapes and constants."""
    found = {str(value.name) for value in model.graph.inputs}
    for node in model.graph:
        for value in node.outputs:
            if any(v is not None and v.name in found for v in _deciding(node, value)):
                found.add(str(value.name))
    return found


def _deciding(node: ir.Node, value: ir.Value) -> Sequence[ir.Value | None]:
    """Return the operands that decide the elements of a result."""
    if node.domain == "" and node.op_type in _OF_SHAPES:
        return ()
    if node.domain == "" and node.op_type in _FIRST_ALONE:
        return node.inputs[:1]
    if node.domain == "" and node.op_type == "Loop" and never_iterates(node):
        return node.inputs[2:][value.index() :][:1]  # what it started with, or nothing
    return (*node.inputs, *captured_values(node))


@dataclass
class Recorded:
    """Values of one model, by sample. More of the same model may be added, none changed.

    Those ``filled`` only the check at hand needs.
    """

    samples: list[Recording]
    filled: set[str] = field(default_factory=set)

    def following(
        self, values: Sequence[Mapping[str, Data]], names: Collection[str]
    ) -> Recorded:
        """Return what is known of the next model; see :meth:`Recording.following`."""
        rows = zip(self.samples, values, strict=True)
        return Recorded([old.following(new, names) for old, new in rows], self.filled)

    def holds(self, names: Collection[str]) -> bool:
        """Whether values are recorded for each sample."""
        wanted = frozenset(names)
        return all(wanted <= recording.keys() for recording in self.samples)
