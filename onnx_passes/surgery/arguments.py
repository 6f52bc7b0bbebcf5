"""What a call of an operator is given: types, attributes, and how many outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import UsageError
from onnx_passes.passes.naming import did_you_mean
from onnx_passes.plain import Plain, PlainMapping

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def dtype_of(given: Plain) -> ir.DataType:
    """Return the element type that a numpy type, a name or an onnx-ir type means.

    Raises:
        UsageError: It means no element type.
    """
    if isinstance(given, ir.DataType):
        return given
    if isinstance(given, str) and given.upper() in ir.DataType.__members__:
        return ir.DataType[given.upper()]
    try:
        return ir.DataType.from_numpy(np.dtype(given))
    except (TypeError, ValueError) as error:
        names = [name.lower() for name in ir.DataType.__members__]
        hint = near(str(given), names)
        raise UsageError(f"{given!r} is not an element type", help=hint) from error


def as_array(value: object, dtype: ir.DataType | None = None) -> Array:
    """Return an array; floats become float32 and integers int64 where no type is given.

    Args:
        value: A number, a list, or an array of any shape.
        dtype: The element type; None to keep that of an array.
    """
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return array if dtype is None else array.astype(dtype.numpy())
    array = np.asarray(value)
    if dtype is not None:
        return array.astype(dtype.numpy())
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def attribute_of(name: str, value: Plain) -> ir.Attr:
    """Return an attribute; arrays become tensors, and types their numbers.

    Args:
        name: Name of the attribute.
        value: Its value: a number, text, a list, an array, a graph or a type.
    """
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, ir.tensor(value))
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    scalar = isinstance(value, type) and issubclass(value, np.generic)
    if scalar or isinstance(value, ir.DataType):
        return ir.AttrInt64(name, int(dtype_of(value)))
    if isinstance(value, tuple):
        value = list(value)
    return ir.convenience.convert_attribute(name, value)


def outputs_of_bodies(op_type: str, attributes: PlainMapping) -> int | None:
    """Return how many outputs an operator has by its bodies.

    Args:
        op_type: The operator.
        attributes: Its attributes by name.
    """
    for name, besides in (("then_branch", 0), ("body", 1 if op_type == "Loop" else 0)):
        if isinstance(body := attributes.get(name), ir.Graph):
            return len(body.outputs) - besides  # a Loop keeps its condition to itself
    return None


def count_outputs(
    schema: onnx.defs.OpSchema | None, op_type: str, asked: int | Sequence[str] | None
) -> tuple[int, Sequence[str] | None]:
    """Return how many outputs a node gets, and their names where they were given.

    Args:
        schema: The schema of the operator; None if it is not known.
        op_type: The operator, for messages.
        asked: The number of outputs, or their names; None if nobody said.

    Raises:
        UsageError: The operator leaves that open, and nobody said.
    """
    if isinstance(asked, str):
        asked = [asked]
    if isinstance(asked, Sequence):
        return len(asked), asked
    if asked is not None:
        return asked, None
    if schema is None:
        return 1, None
    if schema.min_output == 0 or schema.outputs[-1].option == _VARIADIC:
        raise UsageError(
            f"{op_type} has as many outputs as one wants", help="say how many: outputs=2"
        )
    return schema.min_output, None


def check_call(
    schema: onnx.defs.OpSchema | None,
    op_type: str,
    count: int,
    attributes: Iterable[str],
) -> None:
    """Check the number of inputs and the names of attributes.

    Args:
        schema: The schema of the operator; None if it is not known.
        op_type: The operator, for messages.
        count: The number of inputs.
        attributes: Names of the attributes.

    Raises:
        UsageError: They are not the operator's.
    """
    if schema is None:
        return
    if not schema.min_input <= count <= schema.max_input:
        wanted = f"{schema.min_input}"
        wanted += "" if schema.max_input == schema.min_input else f" to {schema.max_input}"
        names = ", ".join(i.name for i in schema.inputs)
        raise UsageError(
            f"{op_type} takes {wanted} inputs, not {count}", help=f"they are {names}"
        )
    for name in attributes:
        if name not in schema.attributes:
            raise UsageError(
                f"{op_type} has no attribute {name!r} in opset {schema.since_version}",
                help=near(name, schema.attributes),
            )


def near(name: str, known: Iterable[str]) -> str:
    """Suggest the name that was meant.

    Args:
        name: What was asked for.
        known: What there is.
    """
    known = sorted(known)
    listed = f"known: {', '.join(known[:12])}" if known else "there are none"
    return did_you_mean(name, known, listed)
