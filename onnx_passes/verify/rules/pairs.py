"""A pair of graphs, before and after a rewrite, that the prover looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, ShapeInferencePass

from onnx_passes.errors import ModelError
from onnx_passes.ops.evaluation import concrete_shape
from onnx_passes.ops.semantics import is_float, is_integer


@dataclass(frozen=True)
class ModelPair:
    """Two models that are to compute the same from the same inputs.

    Attributes:
        before: The model before the rewrite.
        after: The model after it, with outputs named as those before.
    """

    before: ir.Model
    after: ir.Model

    @staticmethod
    def of(before: ir.Model, after: ir.Model) -> ModelPair:
        """Copy two models and infer the types of their values.

        Args:
            before: The original graph.
            after: The rewritten graph.

        Raises:
            ModelError: They have different inputs or numbers of outputs.
        """
        ends = {v.name for model in (before, after) for v in model.graph.outputs}
        before, after = _typed(before, ends, trusted=True), _typed(after, ends, trusted=False)
        wanted, given = ([str(v.name) for v in free_inputs(m)] for m in (before, after))
        if not set(given) <= set(wanted):
            extra = sorted(set(given) - set(wanted))
            raise ModelError(
                f"the rewritten model has inputs that the original lacks: {', '.join(extra)}",
                help="compare models of the same interface",
            )
        if len(before.graph.outputs) != len(after.graph.outputs):
            raise ModelError(
                f"the rewritten model has {len(after.graph.outputs)} outputs, "
                f"the original {len(before.graph.outputs)}",
                help="compare models of the same interface",
            )
        _name_outputs(before, after)
        return ModelPair(before, after)

    @cached_property
    def inputs(self) -> list[ir.Value]:
        """The inputs that a caller must feed."""
        return free_inputs(self.before)

    @cached_property
    def interface_types(self) -> set[ir.DataType]:
        """The types of inputs and outputs."""
        values = (*self.inputs, *self.before.graph.outputs)
        return {v.dtype for v in values if v.dtype is not None}

    @cached_property
    def float_types(self) -> set[ir.DataType]:
        """Every float type of any value on either side."""
        return {t for t in _types(self.before) | _types(self.after) if is_float(t)}

    @property
    def has_floats(self) -> bool:
        """Whether floats go in, come out or are computed on the way."""
        return bool(self.float_types)

    @property
    def has_integers(self) -> bool:
        """Whether integers go in or come out."""
        return any(is_integer(t) for t in self.interface_types)

    @property
    def shapes(self) -> str:
        """The shapes of the inputs as text."""
        parts = (f"{v.name}{list(concrete_shape(v))}" for v in self.inputs)
        return ", ".join(parts) or "no inputs"

    @cached_property
    def shared_constants(self) -> dict[str, ir.DataType]:
        """Types by name of the constants of more than one element that both sides have."""
        shared = {}
        others = self.after.graph.initializers
        for name, value in self.before.graph.initializers.items():
            mine, other = value.const_value, None
            if name in others and not value.is_graph_input():
                other = others[name].const_value
            if mine is None or other is None or mine.size <= 1 or mine.dtype != other.dtype:
                continue
            if not mine.dtype.is_integer() and _equal(mine, other):
                shared[name] = mine.dtype
        return shared

    def float_constants(self) -> list[float]:
        """Return every float that a graph has as a constant or an attribute."""
        numbers: list[float] = []
        for model in (self.before, self.after):
            for _, tensor in _constants(model):
                if is_float(tensor.dtype):
                    numbers += tensor.numpy().astype(float).reshape(-1).tolist()
            attrs = (a for node in model.graph for a in node.attributes.values())
            numbers += [float(a.value) for a in attrs if a.type == ir.AttributeType.FLOAT]
        return numbers

    def constants(self) -> list[str]:
        """Describe the constants of the interface's types, a phrase each."""
        described = {}
        for model in (self.before, self.after):
            for name, tensor in _constants(model):
                if name in self.shared_constants:
                    continue
                if tensor.size == 1 and tensor.dtype in self.interface_types:
                    number = tensor.numpy().reshape(-1)[0]
                    described[str(number)] = f"constant {name} = {number}"
                elif tensor.dtype in self.interface_types:
                    described[name] = f"constant {name} of shape {list(tensor.shape)}"
        return list(described.values())


def _equal(left: ir.TensorProtocol, right: ir.TensorProtocol) -> bool:
    nan = left.dtype.is_floating_point()
    return bool(np.array_equal(left.numpy(), right.numpy(), equal_nan=nan))


def free_inputs(model: ir.Model) -> list[ir.Value]:
    """Return the graph inputs; one with an initializer too, as a caller may feed it."""
    return list(model.graph.inputs)


def _typed(model: ir.Model, ends: set[str | None], *, trusted: bool) -> ir.Model:
    copy = model.clone()
    if copy.functions:
        # What a function computes is its body, and a rewrite may have changed that.
        InlinePass()(copy)
    _lift_constants(copy, ends)
    if not trusted:
        # A rewrite inherits the declared shapes of what it replaces, right or wrong.
        for output in copy.graph.outputs:
            if output.producer() is not None:
                output.shape = None
    ShapeInferencePass()(copy)
    return copy


def _lift_constants(model: ir.Model, kept: set[str | None]) -> None:
    """Make initializers of Constant nodes, unless their names are those of outputs."""
    graph = model.graph
    for node in list(graph):
        value = node.attributes.get("value") if node.op_type == "Constant" else None
        (output,) = node.outputs if value is not None else (None,)
        if value is None or output is None or value.is_ref() or output.name in kept:
            continue
        tensor = value.as_tensor()
        held = ir.val(output.name, dtype=tensor.dtype, shape=list(tensor.shape.numpy()))
        held.const_value = tensor
        output.replace_all_uses_with(held)
        graph.remove(node, safe=True)
        graph.register_initializer(held)


def _name_outputs(before: ir.Model, after: ir.Model) -> None:
    # Outputs correspond by position; only their names may have moved to other values.
    wanted = [o.name for o in before.graph.outputs]
    ends = set(after.graph.outputs)
    for value in (o for node in after.graph for o in node.outputs):
        if value not in ends and value.name in wanted:
            value.name = f"{value.name}_inner"
    for old, new in zip(before.graph.outputs, after.graph.outputs, strict=True):
        if new.name == old.name:
            continue
        if new.is_graph_input() or new.is_initializer() or new.name in _output_names(before):
            identity = ir.node("Identity", [new])
            after.graph.append(identity)
            fresh = identity.outputs[0]
            fresh.type, fresh.shape = new.type, new.shape
            index = list(after.graph.outputs).index(new)
            after.graph.outputs[index] = fresh
            new = fresh
        new.name = old.name


def _output_names(model: ir.Model) -> set[str | None]:
    return {o.name for o in model.graph.outputs}


def _types(model: ir.Model) -> set[ir.DataType]:
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    values += [o for node in model.graph for o in node.outputs]
    return {v.dtype for v in values if v.dtype is not None}


def _constants(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    for name, value in model.graph.initializers.items():
        if value.const_value is not None:
            yield name, value.const_value
    for node in model.graph:
        if node.op_type == "Constant":
            tensor = ir.convenience.get_const_tensor(node.outputs[0])
            if tensor is not None:
                yield str(node.outputs[0].name), tensor
