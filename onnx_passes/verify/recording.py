"""Values recorded while a model ran: what regions are fed with and held against."""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.walk import captured_values
from onnx_passes.passes.inline.inline_functions import InlineFunctions
from onnx_passes.runtime.base import Array, Data
from onnx_passes.verify.node_equality import constant_tensor


class Recording(Mapping[str, Array]):
    """Arrays by name, in memory up to a limit, beyond it in files that are memory-mapped.

    Args:
        limit: Bytes kept in memory.
    """

    def __init__(self, limit: int) -> None:
        """Start empty."""
        self._limit = limit
        self._held = 0
        self._arrays: dict[str, Array] = {}
        self._folder: Path | None = None
        self._files = 0

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def spilled(self) -> int:
        """Number of arrays that went to disk."""
        return self._files

    def update(self, values: Mapping[str, Data]) -> None:
        """Record tensors; other kinds of data are left out."""
        for name, value in values.items():
            self._arrays.pop(name, None)
            if isinstance(value, np.ndarray):
                self._arrays[name] = self._place(value)
        self._held = sum(a.nbytes for a in self._arrays.values() if not _mapped(a))

    def keep(self, names: Iterable[str]) -> None:
        """Forget all but these names."""
        wanted = set(names)
        self._arrays = {k: v for k, v in self._arrays.items() if k in wanted}
        self._held = sum(a.nbytes for a in self._arrays.values() if not _mapped(a))

    def _place(self, array: Array) -> Array:
        # Objects (strings) cannot be mapped, and custom dtypes come back as plain bytes.
        plain = array.dtype.kind in "biufc" and array.nbytes > 0
        if self._held + array.nbytes <= self._limit or not plain:
            self._held += array.nbytes
            return array
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="onnx-passes-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / f"{self._files}.npy"
        self._files += 1
        np.save(path, array, allow_pickle=False)
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped


def _mapped(array: Array) -> bool:
    return isinstance(array, np.memmap)


SMALL = 1 << 20


def inlined(model: ir.Model) -> ir.Model:
    """Return a model without functions, so that their bodies are compared node by node.

    Returns:
        The model itself where it has none, else a copy. Calls stay whose function means other
        versions of operators than the model does; they count as one node each.

    Raises:
        PassError: Functions call each other in a cycle.
    """
    if not model.functions:
        return model
    copy = copy_model(model)
    InlineFunctions()(copy)
    return copy


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
    copy = model.clone()
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


def _computed_weights(graph: ir.Graph) -> set[ir.Value]:
    fixed: set[ir.Value] = set()
    for node in graph:
        read = [v for v in (*node.inputs, *captured_values(node)) if v is not None]
        if all(value in fixed or constant_tensor(value) is not None for value in read):
            fixed.update(node.outputs)
    return {value for value in fixed if not _is_small(value)}


def _is_small(value: ir.Value) -> bool:
    dtype = value.dtype
    if value.shape is None or dtype is None or not value.shape.is_static():
        return False
    if dtype is ir.DataType.STRING:
        return False
    size = math.prod(value.shape.numpy()) * dtype.bitwidth / 8
    return size <= SMALL


def value_names(model: ir.Model) -> list[str]:
    """Return the names of the inputs and of all values of the main graph."""
    names = [str(v.name) for v in model.graph.inputs]
    return names + [str(v.name) for node in model.graph for v in node.outputs if v.name]
