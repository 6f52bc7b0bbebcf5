"""How a model is called, and whether a pass kept it: names, order, types and dimensions.

These belong to the model's user; a pass may change the parts that it declares. A pass may
also *say more* where the model said nothing, as shape inference does, which does not count as
a change:

- of an output, a shape, dimension or type that was not annotated may become anything;
- of an input, which engines hold callers to, an unnamed dynamic dimension may become a named
  one, if no other input dimension has that name. It may not become a number.

A named dimension is a promise to the user: it stays, under its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import onnx_ir as ir

Part: TypeAlias = Literal["inputs", "outputs", "dims", "types"]
Dim: TypeAlias = int | str | None


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output.

    Attributes:
        name: Its name.
        type: Its type as ONNX writes it (``tensor(float)``, ``seq(tensor(int64))``), or None.
        dims: Sizes, names of dynamic dimensions, None for those without a name; of a sequence
            or optional those of its elements. None where not even the rank is known.
        default: Whether it may be left out, because an initializer gives its value.
    """

    name: str
    type: str | None
    dims: tuple[Dim, ...] | None
    default: bool = False

    def __str__(self) -> str:
        return f"{self.type or 'untyped'}{_dims_text(self.dims)} {self.name}"


@dataclass(frozen=True, slots=True)
class Interface:
    """The inputs and outputs of a model, in order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def interface_of(model: ir.Model) -> Interface:
    """Read how a model is called."""
    inputs = tuple(_port(v, default=v.is_initializer()) for v in model.graph.inputs)
    return Interface(inputs, tuple(_port(v) for v in model.graph.outputs))


def compare_interfaces(
    before: Interface, after: Interface, allowed: frozenset[str] = frozenset()
) -> list[str]:
    """Say what a pass changed that it did not declare.

    Args:
        before: The interface before the pass.
        after: The interface after the pass.
        allowed: The parts that it may change: "inputs" and "outputs" (names, order, number
            and defaults), "dims" and "types" (of both).

    Returns:
        A sentence for each change; empty where the interface was kept.
    """
    changes = []
    if "inputs" not in allowed:
        changes += _names("input", before.inputs, after.inputs)
    if "outputs" not in allowed:
        changes += _names("output", before.outputs, after.outputs)
    names = Counter(d for p in after.inputs for d in p.dims or () if isinstance(d, str))
    fresh = frozenset(n for n, uses in names.items() if uses == 1 and isinstance(n, str))
    for word, old, new in _pairs(before, after):
        if word == "input" and old.default != new.default and "inputs" not in allowed:
            verb = "lost its" if old.default else "has been given a"
            changes.append(f"input {old.name!r} {verb} default value")
        if "types" not in allowed and old.type != new.type and (old.type or word == "input"):
            changes.append(
                f"{word} {old.name!r} is {new.type or 'without a type'}, "
                f"was {old.type or 'without a type'}"
            )
        if "dims" not in allowed:
            changes += _dims(word, old, new, fresh)
    return changes


def _pairs(before: Interface, after: Interface) -> list[tuple[str, Port, Port]]:
    pairs = []
    for word, old, new in (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
    ):
        by_name = {port.name: port for port in new}
        pairs += [(word, port, by_name[port.name]) for port in old if port.name in by_name]
    return pairs


def _names(word: str, before: Sequence[Port], after: Sequence[Port]) -> list[str]:
    old, new = [p.name for p in before], [p.name for p in after]
    if old == new:
        return []
    gone = [name for name in old if name not in new]
    extra = [name for name in new if name not in old]
    if [old.index(name) for name in gone] == [new.index(name) for name in extra]:
        renamed = dict(zip(gone, extra, strict=True))
        changes = [f"{word} {was!r} is now named {now!r}" for was, now in renamed.items()]
    else:
        changes = [f"{word} {name!r} is gone" for name in gone]
        changes += [f"{word} {name!r} is new" for name in extra]
    common = [name for name in new if name in old]
    if common != [name for name in old if name in new]:
        changes.append(f"the {word}s are {', '.join(new)}, were {', '.join(old)}")
    return changes


def _dims(word: str, old: Port, new: Port, fresh: frozenset[str]) -> list[str]:
    if old.dims == new.dims or (old.dims is None and word == "output"):
        return []
    what = f"{word} {old.name!r}"
    if old.dims is None or new.dims is None or len(old.dims) != len(new.dims):
        return [f"{what} has {_shape(new.dims)}, had {_shape(old.dims)}"]
    changes = []
    for axis, (was, now) in enumerate(zip(old.dims, new.dims, strict=True)):
        annotated = was is None and (word == "output" or now in fresh)
        if was != now and not annotated:
            changes.append(f"dimension {axis} of {what} is {_size(now)}, was {_size(was)}")
    return changes


def _shape(dims: tuple[Dim, ...] | None) -> str:
    return "no known rank" if dims is None else f"shape {_dims_text(dims)}"


def _dims_text(dims: tuple[Dim, ...] | None) -> str:
    if dims is None:
        return ""
    return f"[{','.join('?' if d is None else str(d) for d in dims)}]"


def _size(dim: Dim) -> str:
    if dim is None:
        return "dynamic without a name"
    return f"dynamic {dim!r}" if isinstance(dim, str) else str(dim)


def _port(value: ir.Value, *, default: bool = False) -> Port:
    dims: tuple[Dim, ...] | None = None
    if value.shape is not None:
        dims = tuple(d if isinstance(d, int) else d.value for d in value.shape)
    return Port(value.name or "", type_text(value.type), dims, default)


def type_text(type_: ir.TypeProtocol | None) -> str | None:
    """Write a type as ONNX does: ``optional(seq(tensor(float)))``."""
    if type_ is None:
        return None
    if isinstance(type_, ir.OptionalType):
        return f"optional({type_text(type_.elem_type)})"
    if isinstance(type_, ir.SequenceType):
        return f"seq({type_text(type_.elem_type)})"
    word = "sparse_tensor" if isinstance(type_, ir.SparseTensorType) else "tensor"
    return f"{word}({type_.dtype.name.lower()})"
