"""Which column feeds which input, and how samples become what a model is run on.

The interface of a model travels to workers as plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.contracts.scores import dtype_name, shape_text
from onnx_passes.data.file_forms import Columns
from onnx_passes.errors import ReferenceDataError, did_you_mean


@dataclass(frozen=True)
class DataInterface:
    """What data must fit.

    ``dims`` and ``dtypes`` are those of inputs that need data, by name. A dimension is a size,
    a name or None; None replaces dimensions of an unknown rank. Types are named as in numpy.
    ``optional`` inputs have an initializer.
    """

    dims: Mapping[str, tuple[int | str | None, ...] | None]
    dtypes: Mapping[str, str | None]
    optional: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs, in order."""
        return tuple(self.dims)

    @property
    def required(self) -> tuple[str, ...]:
        """The inputs without an initializer, in order."""
        return tuple(name for name in self.dims if name not in self.optional)

    @property
    def ranks(self) -> dict[str, int | None]:
        """The rank of each input."""
        return {n: None if dims is None else len(dims) for n, dims in self.dims.items()}

    @classmethod
    def of(cls, model: ir.Model) -> DataInterface:
        """Read it from a model."""
        dims: dict[str, tuple[int | str | None, ...] | None] = {}
        dtypes: dict[str, str | None] = {}
        for value in model.graph.inputs:
            name = str(value.name)
            shape = value.shape
            dims[name] = None if shape is None else tuple(_dim(dim) for dim in shape)
            dtypes[name] = _dtype(value)
        optional = tuple(str(v.name) for v in model.graph.inputs if v.is_initializer())
        return cls(dims, dtypes, optional, tuple(str(v.name) for v in model.graph.outputs))


def _dim(dim: int | ir.SymbolicDim) -> int | str | None:
    return dim if isinstance(dim, int) else dim.value


def _dtype(value: ir.Value) -> str | None:
    if value.dtype is None or value.dtype == ir.DataType.UNDEFINED:
        return None
    return "string" if value.dtype == ir.DataType.STRING else value.dtype.numpy().name


LABELS = ("label", "labels", "target", "targets", "class", "cls", "y")
"""Columns that hold labels where nobody says, unless an input has the name."""


@dataclass(frozen=True)
class Binding:
    """How columns are fed.

    ``columns`` are by input name. ``stacked`` samples lack the batch axis; others are what the
    model is run on at once. ``batch`` samples are fed at once. ``fixed`` says that the model
    demands that number, so that the last batch is filled up.
    """

    columns: Mapping[str, str]
    labels: str | None
    stacked: bool
    batch: int
    fixed: bool


def bind(spec: DataSpec, interface: DataInterface, first: Columns) -> Binding:
    """Decide how the columns of a data set feed a model.

    ``first`` is one sample. Raises ``ReferenceDataError`` if an input has no column, or a
    sample of another rank.
    """
    labels = _labels(spec, interface, first)
    columns = _inputs(spec, interface, [name for name in first if name != labels])
    ranks = {name: np.ndim(first[column][0]) for name, column in columns.items()}
    forms = {
        name: _are_stacked(name, columns[name], rank, interface.dims[name])
        for name, rank in ranks.items()
    }
    known = {name: form for name, form in forms.items() if form is not None}
    if len(set(known.values())) > 1:
        each = ", ".join(f"{n}: {'without' if s else 'with'}" for n, s in known.items())
        raise ReferenceDataError(
            f"samples of some inputs have a batch axis, and others have none ({each})",
            help="store all of them with it, or all without",
        )
    stacked = next(iter(known.values()), False)
    batch, fixed = _batch(spec, interface, columns) if stacked else (1, False)
    if not stacked and spec.batch not in (None, 1):
        raise ReferenceDataError(
            f"samples have a batch axis, and cannot be put into batches of {spec.batch}",
            help="leave out 'batch', or store samples without that axis",
        )
    return Binding(columns, labels, stacked, batch, fixed)


def _labels(spec: DataSpec, interface: DataInterface, first: Columns) -> str | None:
    if spec.labels is not None:
        if spec.labels not in first:
            raise ReferenceDataError(
                f"the data has no column {spec.labels!r} for the labels",
                help=did_you_mean(spec.labels, list(first)),
            )
        return spec.labels
    fed = {*interface.names, *spec.columns.values()}
    return next((name for name in LABELS if name in first and name not in fed), None)


def _inputs(spec: DataSpec, interface: DataInterface, columns: list[str]) -> dict[str, str]:
    for name, column in spec.columns.items():
        if name not in interface.names:
            raise ReferenceDataError(
                f"the model has no input {name!r}", help=did_you_mean(name, interface.names)
            )
        if column not in columns:
            raise ReferenceDataError(
                f"the data has no column {column!r} for input {name!r}",
                help=did_you_mean(column, columns),
            )
    found = dict(spec.columns)
    for name in interface.names:
        if name not in found and name in columns:
            found[name] = name
    missing = [name for name in interface.required if name not in found]
    free = [column for column in columns if column not in found.values()]
    if len(missing) == 1 and len(free) == 1 and len(interface.required) == 1:
        found[missing[0]] = free[0]
    elif missing:
        raise ReferenceDataError(
            f"there is no data for input {missing[0]!r}",
            help=f"the data has the columns {', '.join(columns) or 'none'}; say which feeds "
            f"it: columns {missing[0]}=COLUMN",
        )
    return {name: found[name] for name in interface.names if name in found}


def _are_stacked(
    name: str, column: str, rank: int, dims: tuple[int | str | None, ...] | None
) -> bool | None:
    """Return whether samples of an input are stacked; None if that is not known."""
    if dims is None:
        return None
    if rank == len(dims):
        return False
    if rank == len(dims) - 1:
        return True
    shown = ",".join("?" if dim is None else str(dim) for dim in dims)
    raise ReferenceDataError(
        f"a sample of input {name!r}, in column {column!r}, has {rank} axes, and the model "
        f"needs [{shown}]",
        help="a sample has the axes of the input, with the batch axis or without; no other "
        "axis is added: 'prepare: module:function' may reshape samples",
    )


def _batch(
    spec: DataSpec, interface: DataInterface, columns: Mapping[str, str]
) -> tuple[int, bool]:
    sizes: dict[int, str] = {}
    for name in columns:
        dims = interface.dims[name]
        if dims and isinstance(dims[0], int):
            sizes.setdefault(dims[0], name)
    if len(sizes) > 1:
        each = ", ".join(f"{name}: {size}" for size, name in sizes.items())
        raise ReferenceDataError(
            f"inputs have different batch sizes ({each})",
            help="store samples as the model takes them, with the batch axis",
        )
    demanded = next(iter(sizes), None)
    if demanded is None:
        return spec.batch or 1, False
    if spec.batch not in (None, demanded):
        raise ReferenceDataError(
            f"batch is {spec.batch}, and the model demands {demanded}",
            help="leave out 'batch', or make the batch of the model dynamic: "
            "onnx-passes sanitize --override-input-shapes",
        )
    return demanded, True


def check_column(
    name: str,
    values: Array | Sequence[object],
    interface: DataInterface,
    binding: Binding,
    names: Callable[[int], str],
    *,
    allow_nan: bool,
) -> None:
    """Check what one input is given in a shard.

    ``values`` are an array [samples, ...], or a list of arrays. ``names`` gives the name of a
    sample by its place in the shard. Raises ``ReferenceDataError`` if a sample has another
    type or shape, or a NaN.
    """
    dims = interface.dims[name]
    rest = dims if dims is None or not binding.stacked else dims[1:]
    items = [values] if isinstance(values, np.ndarray) else [np.asarray(v) for v in values]
    for place, item in enumerate(items):
        whole = isinstance(values, np.ndarray)
        shape = item.shape[1:] if whole else item.shape
        given, wanted = dtype_name(item.dtype), interface.dtypes[name]
        if wanted is not None and given != wanted:
            raise ReferenceDataError(
                f"input {name!r} is given {given}, and the model needs {wanted}",
                where=names(place),
                help="nothing is cast: store the type that the model declares, or convert it "
                "with 'prepare: module:function'",
            )
        if rest is not None and not _fits(shape, rest):
            shown = ",".join("?" if dim is None else str(dim) for dim in rest)
            raise ReferenceDataError(
                f"a sample of input {name!r} has shape {shape_text(shape)}, and the model "
                f"needs [{shown}]",
                where=names(place),
                help="no axis is added, broadcast or padded",
            )
        if not allow_nan and (row := _nan(item, whole=whole)) is not None:
            raise ReferenceDataError(
                f"input {name!r} has a NaN",
                where=names(row if whole else place),
                help="replace it, or set allow_nan if the model is meant to take it",
            )


def _fits(shape: tuple[int, ...], dims: tuple[int | str | None, ...]) -> bool:
    return len(shape) == len(dims) and all(
        not isinstance(dim, int) or dim == size for size, dim in zip(shape, dims, strict=True)
    )


def _nan(item: Array, *, whole: bool) -> int | None:
    """Return the place of the first sample with a NaN."""
    if item.dtype.kind not in "fc":
        return None
    bad = np.isnan(item)
    if not bad.any():
        return None
    return int(bad.reshape(len(item), -1).any(axis=1).argmax()) if whole else 0
