"""What is known of the integer values of a model."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.passes._support.known import INTEGERS, MAX_ELEMENTS, RANGES, Known
from onnx_passes.passes._support.known_rules import RULES
from onnx_passes.passes._support.tensors import constant_of


class Knowledge:
    """What is known of the values of a model, filled node by node in topological order."""

    def __init__(self, imports: Mapping[str, int]) -> None:
        """Know nothing yet.

        Args:
            imports: The opset imports around the nodes.
        """
        self._imports = imports
        self._opset = imports.get("", 1)
        self._found: dict[ir.Value, Known] = {}
        self._constants: dict[ir.Value, Known] = {}

    def anew(self) -> Knowledge:
        """Return one that knows the constants of the same model, and nothing else."""
        other = Knowledge(self._imports)
        other._constants = self._constants
        return other

    def of(self, value: ir.Value | None) -> Known | None:
        """Return what is known of a value; a constant is known in full."""
        if value is None:
            return None
        found = self._found.get(value)
        if found is not None:
            return found
        found = self._constants.get(value)
        if found is None:
            found = _constant(value)
            if found is not None:  # else it may be folded yet
                self._constants[value] = found
        return found

    def visit(self, node: ir.Node) -> Known | None:
        """Find out what is known of a node's only output."""
        rule = RULES.get(node.op_type) if node.domain == "" else None
        if rule is None or len(node.outputs) != 1:
            return None
        if any(attribute.is_ref() for attribute in node.attributes.values()):
            return None
        known = rule(self, node)
        if known is None or len(known.elements) > MAX_ELEMENTS:
            return None
        low, high = RANGES[known.dtype]
        # What overflows wraps around: none of the rules may go on from it.
        elements = tuple(
            None if isinstance(e, int) and not low <= e <= high else e for e in known.elements
        )
        self._found[node.outputs[0]] = known = Known(elements, known.rank, known.dtype)
        return known

    def numbers(self, value: ir.Value | None) -> list[int] | None:
        """Return the elements of a value, if all are known."""
        known = self.of(value)
        return None if known is None else known.numbers

    def axes(self, node: ir.Node) -> list[int] | None:
        """Return the axes of Squeeze or Unsqueeze; an input since opset 13."""
        if self._opset < 13:
            attribute = node.attributes.get("axes")
            return list(attribute.as_ints()) if attribute is not None else None
        return self.numbers(node.inputs[1] if len(node.inputs) > 1 else None)


def _constant(value: ir.Value) -> Known | None:
    tensor = constant_of(value)
    if tensor is None or tensor.dtype not in (*INTEGERS, ir.DataType.BOOL):
        return None
    rank = len(tensor.shape)
    if rank > 1 or tensor.size > MAX_ELEMENTS:
        return None
    elements = tuple(int(e) for e in tensor.numpy().reshape(-1))
    return Known(elements, rank, tensor.dtype)
