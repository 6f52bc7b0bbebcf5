"""The inputs and outputs of a model, as plain data that travels to workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import onnx_ir as ir

from onnx_passes.plain import PlainDict, PlainMapping


@dataclass(frozen=True)
class DataInterface:
    """What data must fit.

    Attributes:
        dims: Declared dimensions of each input that needs data, by name: sizes, names or None
            for each axis; None where the rank is unknown.
        dtypes: Element type of these inputs, as numpy names it; None where it is unknown.
        optional: Inputs that have an initializer.
        outputs: Names of the outputs, in order.
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

    def to_json(self) -> PlainDict:
        """Return the fields as JSON has them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: PlainMapping) -> DataInterface:
        """Read what :meth:`to_json` returns."""
        dims = {n: None if d is None else tuple(d) for n, d in data["dims"].items()}
        return cls(dims, data["dtypes"], tuple(data["optional"]), tuple(data["outputs"]))


def _dim(dim: int | ir.SymbolicDim) -> int | str | None:
    return dim if isinstance(dim, int) else dim.value


def _dtype(value: ir.Value) -> str | None:
    if value.dtype is None or value.dtype == ir.DataType.UNDEFINED:
        return None
    return "string" if value.dtype == ir.DataType.STRING else value.dtype.numpy().name
