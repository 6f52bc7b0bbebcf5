"""Values recorded while a model ran: what regions are fed with and held against."""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_passes.arrays import Array
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_nodes, captured_values, shadows_operator
from onnx_passes.runtime.engine_base import Data, Feeds, MadeUpFeeds
from onnx_passes.verify.node_equality import constant_tensor


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
        np.save(path, array, allow_pickle=False)
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped


class Recording(Mapping[str, Array]):
    """Arrays by name, in memory up to a limit, beyond it in files that are memory-mapped.

    Args:
        limit: Bytes kept in memory.
        spill: Where the rest goes; None for a place of its own.
        label: What a run on the arrays is called; None if they follow from given inputs.
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
        return values if self._label is None else MadeUpFeeds(values, self._label)

    @property
    def spilled(self) -> int:
        """Number of arrays that went to disk."""
        return self._spill.files

    def following(self, values: Mapping[str, Data], names: Collection[str]) -> Recording:
        """Return what is known of the next model: these values, and of the old ones the rest.

        Args:
            values: What it computes otherwise.
            names: The names of its values.
        """
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
    """Record tensors that are the same for every sample, once in all and in files.

    Args:
        recordings: What is known of a model, by sample.
        values: The tensors, by name.
    """
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
    must not be repeated here.

    Returns:
        The model itself where it has none, else a copy. Calls stay whose function means other
        versions of operators than the model does, or that leave inputs out. So do those that
        an engine may take for an operator. They count as one node each.
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


def exposed(
    model: ir.Model,
    *,
    weights: bool = True,
    hidden: Collection[str] = (),
    needed: Collection[str] = (),
) -> ir.Model:
    """Return a copy of a model whose outputs are all values of its main graph.

    Args:
        model: The model.
        weights: Whether weights that the graph computes (from no input, and over 1 MiB or of
            unknown size) are among them. They are the same for every sample.
        hidden: Names of values that are not wanted.
        needed: Names of computed weights that are wanted in any case.
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
    """Return the names of large values that a model computes from no input.

    Args:
        model: The model, without functions.
        names: Names of values that may be meant.
    """
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
