"""Convert inputs and outputs to other element types, with Casts at the boundary."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated

import numpy as np
import onnx_ir as ir
from pydantic import BeforeValidator, Field

from onnx_passes import passes
from onnx_passes.arrays import Array, DType
from onnx_passes.errors import PassError
from onnx_passes.passes.context import InterfaceMap, Port
from onnx_passes.passes.convert import _ports as ports
from onnx_passes.passes.options import did_you_mean
from onnx_passes.passes.replace import Namer

_FLOATS = frozenset(("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"))
_TYPES = {
    "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16,
    "float32": ir.DataType.FLOAT,
    "float64": ir.DataType.DOUBLE,
    "int8": ir.DataType.INT8,
    "int16": ir.DataType.INT16,
    "int32": ir.DataType.INT32,
    "int64": ir.DataType.INT64,
    "uint8": ir.DataType.UINT8,
    "uint16": ir.DataType.UINT16,
    "uint32": ir.DataType.UINT32,
    "uint64": ir.DataType.UINT64,
    "bool": ir.DataType.BOOL,
}
_ALIASES = {"float": "float32", "double": "float64", "half": "float16"}


def parse_type(value: object) -> str:
    """Return the name of an element type as numpy spells it."""
    name = str(value).lower()
    name = _ALIASES.get(name, name)
    if name not in _TYPES:
        known = f"known are {', '.join(_TYPES)}"
        raise ValueError(f"{value!r} is no type; {did_you_mean(name, _TYPES, known)}")
    return name


Type = Annotated[str, BeforeValidator(parse_type)]
"""An element type by name: ``float16``, ``uint8``."""


@passes.verify.equality
@passes.register()
class ConvertIoTypes(passes.Transformation):
    """Convert inputs and outputs to other element types, with Casts at the boundary.

    Before: ``(float[1, 3, 8, 8] image) => ...`` with ``inputs: {image: uint8}``
    After:  ``(uint8[1, 3, 8, 8] image) => ... { image_cast = Cast <to = FLOAT> (image) ... }``

    Sound because the model computes what it did, on inputs that the caller may have rounded,
    and the outputs are rounded as the caller would do. The check does both with numpy.

    Leaves alone: inner values; names, order and shapes; inputs and outputs that have the type
    already. It refuses two types of an input that is an output as well. It refuses what has no
    defined result: a Cast of floats to integers, which gives
    anything for NaN and out of range; types that are not numbers.

    Attributes:
        inputs: New types of inputs, by name.
        outputs: New types of outputs, by name.
        all: New types of all inputs and outputs, by their old type, where not given by name.
    """

    interface_changes = frozenset({"types"})
    example = MappingProxyType({"all": {"float32": "float64"}})

    inputs: dict[str, Type] = Field(default_factory=dict)
    outputs: dict[str, Type] = Field(default_factory=dict)
    all: dict[Type, Type] = Field(default_factory=dict)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Insert the Casts."""
        ports.find(model.graph.inputs, self.inputs, self.name, "input")
        ports.find(model.graph.outputs, self.outputs, self.name, "output")
        inputs = self._wanted(model.graph.inputs, self.inputs)
        outputs = self._wanted(model.graph.outputs, self.outputs)
        through = {value for value, to in inputs.items() if outputs.get(value) is to}
        for value, to in inputs.items():
            ports.refuse_pass_through(value, self.name, both=value in through)
            self._check(model, value, to, value.dtype, "input")
        outputs = {value: to for value, to in outputs.items() if value not in through}
        for value, to in outputs.items():
            ports.refuse_pass_through(value, self.name)
            self._check(model, value, value.dtype, to, "output")
        namer = Namer(model)
        for value, to in inputs.items():
            old = value.dtype
            node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", _number(old))])
            ports.put_behind_input(model, value, node, namer)
            value.type = ir.TensorType(to)
        for value, to in outputs.items():
            node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", _number(to))])
            new = ports.put_before_output(model, value, node, namer)
            new.type, new.shape = ir.TensorType(to), value.shape and value.shape.copy()
        return ir.passes.PassResult(model, modified=bool(inputs or outputs))

    def interface_map(self, before: ir.Model) -> InterfaceMap:
        """Round values with numpy."""
        inputs = self._wanted(before.graph.inputs, self.inputs)
        outputs = self._wanted(before.graph.outputs, self.outputs)
        old = {value: value.dtype for value in inputs}

        def wrap(model: ir.Model) -> None:
            self.call(model)

        return InterfaceMap(_cast(inputs), _cast(old), _cast(outputs), wrap)

    def _wanted(
        self, values: Iterable[ir.Value], named: Mapping[str, str]
    ) -> dict[ir.Value, ir.DataType]:
        wanted = {}
        every = {_TYPES[old]: _TYPES[new] for old, new in self.all.items()}
        chosen = {name: _TYPES[new] for name, new in named.items()}
        for value in values:
            if value.dtype is not None and isinstance(value.type, ir.TensorType):
                to = chosen.get(value.name or "", every.get(value.dtype, value.dtype))
                if to != value.dtype:
                    wanted[value] = to
            elif value.name in named:
                raise PassError(
                    f"{self.name}: {value.name!r} is no tensor of a known type",
                    help="only tensors have a type that a Cast changes",
                )
        return wanted

    def _check(
        self,
        model: ir.Model,
        value: ir.Value,
        source: ir.DataType | None,
        to: ir.DataType | None,
        word: str,
    ) -> None:
        assert source is not None, "only typed values are wanted"
        assert to is not None, "only types are wanted"
        what = f"{self.name}: {word} {value.name!r} would be a Cast from {source} to {to}"
        if source not in _TYPES.values() or to not in _TYPES.values():
            raise PassError(what, help="only numbers and bool are cast")
        if source.name in _FLOATS and to.name not in _FLOATS and to is not ir.DataType.BOOL:
            raise PassError(
                f"{what}, which is not defined for NaN and out of range",
                help="round and clip in the model, or keep a type of floats",
            )
        if ir.DataType.BFLOAT16 in (source, to) and model.opset_imports.get("", 0) < 13:
            raise PassError(f"{what}, which is known from opset 13 on", help="convert-opset")


def _number(dtype: ir.DataType | None) -> int:
    assert dtype is not None, "only typed values are wanted"
    return int(dtype)


def _cast(types: Mapping[ir.Value, ir.DataType | None]) -> Port:
    named = {value.name: (value.dtype, dtype) for value, dtype in types.items()}

    def port(name: str, value: object) -> tuple[str, object]:
        if name not in named or not isinstance(value, np.ndarray):
            return name, value
        dtype = named[name][1]
        assert dtype is not None, "only typed values are wanted"
        return name, _rounded(value, dtype.numpy())

    return port


def _rounded(array: Array, dtype: DType) -> Array:
    """Cast as a caller would: floats become the nearest integer that there is."""
    if np.issubdtype(dtype, np.integer) and array.dtype.kind not in "iub":
        bounds = np.iinfo(dtype)
        whole = np.rint(np.nan_to_num(array.astype(np.float64)))
        # Doubles do not hold the greatest integers: they hold the next one below.
        high = np.nextafter(float(bounds.max) + 1, 0) if bounds.bits == 64 else bounds.max
        return np.clip(whole, bounds.min, high).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)
