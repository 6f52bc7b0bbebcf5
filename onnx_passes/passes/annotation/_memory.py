"""What one inference of shapes leaves to the next one over the same model.

A pipeline infers shapes ten times, and hardly any node changes in between. What was written of
a node and what was read of a shape takes longer to make than the inference itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Generic, TypeVar

import onnx
import onnx_ir as ir

from onnx_passes.model.walk import (
    node_attributes,
    node_head,
    node_inputs,
    node_outputs,
    value_name,
)

if TYPE_CHECKING:
    from onnx_passes.passes.annotation._shapes import FoundShape

OwnerT = TypeVar("OwnerT", ir.Node, ir.Value)
ProtoT = TypeVar("ProtoT", onnx.NodeProto, onnx.TensorProto)


@dataclass
class Written(Generic[OwnerT, ProtoT]):
    """Protobufs of nodes, or of initializers, with what they were made of.

    Attributes:
        write: Makes the protobuf of one.
        made: By owner: what is compared by value, what is compared by identity, and the
            protobuf.
    """

    write: Callable[[OwnerT], ProtoT]
    made: dict[OwnerT, tuple[Hashable, Sequence[object], ProtoT]] = field(default_factory=dict)

    def renew(
        self, owners: Iterable[tuple[OwnerT, Hashable, Sequence[object]]]
    ) -> list[ProtoT]:
        """Return the protobufs of owners, made anew where an owner has changed.

        Those of all others are forgotten.

        Args:
            owners: Each with all that its protobuf is made of, in two parts: values, and
                objects that nothing changes.
        """
        before, self.made = self.made, {}
        for owner, values, objects in owners:
            found = before.get(owner)
            if (
                found is None
                or found[0] != values
                or len(found[1]) != len(objects)
                or not all(map(is_, found[1], objects))
            ):
                found = (values, objects, self.write(owner))
            self.made[owner] = found
        return [proto for _, _, proto in self.made.values()]


def parts_of(node: ir.Node) -> tuple[ir.Node, Hashable, Sequence[object]]:
    """Return a node without subgraphs, and what its protobuf is made of."""
    reads = tuple([None if v is None else value_name(v) for v in node_inputs(node)])
    results = tuple(map(value_name, node_outputs(node)))
    return node, (node_head(node), reads, results), tuple(node_attributes(node).values())


class InferenceMemory:
    """What inferences over one model share.

    Attributes:
        nodes: Their protobufs, where a model has neither subgraphs nor functions.
        tensors: Those of its initializers.
        shapes: What the last inference has read, by the text of protobuf.
        reshapes: Dimensions of results of Reshape, by all that they depend on.
    """

    def __init__(
        self,
        node: Callable[[ir.Node], onnx.NodeProto],
        tensor: Callable[[ir.Value], onnx.TensorProto],
    ) -> None:
        """Remember nothing yet.

        Args:
            node: Writes a node.
            tensor: Writes an initializer.
        """
        self.nodes = Written(node)
        self.tensors = Written(tensor)
        self.shapes: dict[bytes, FoundShape] = {}
        self.reshapes: dict[Hashable, list[int | str | None]] = {}
