"""What shapes a model would have if dimensions of its inputs had other sizes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.model.inference import infer
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.annotation.shape_inference import try_infer_shapes
from onnx_passes.passes.common.graph_edits import own_values
from onnx_passes.passes.common.large_tensors import light_proto
from onnx_passes.passes.common.shapes import ints_of, sizes_of

Place = tuple[str, int]
"""An input and an axis of it."""


@dataclass(frozen=True)
class Baked:
    """A Reshape whose target holds on to a size.

    ``number`` counts all nodes. ``better`` is the target that copies the dimension in place of
    the size; None where the dimension does not stand at that place of the input.
    """

    number: int
    node: ir.Node
    target: list[int]
    better: list[int] | None


class Probe:
    """A copy of a model in which dimensions of inputs have other sizes."""

    def __init__(
        self, model: ir.Model, places: Mapping[Place, str], sizes: Mapping[str, int]
    ) -> None:
        """Copy a model that keeps its weights, and infer its shapes anew for ``sizes``."""
        self.model = copy_model(model)
        self.old: dict[str, int] = {}
        inputs = {value.name: value for value in self.model.graph.inputs}
        for (name, axis), symbol in places.items():
            shape = inputs[name].shape
            assert shape is not None, "the pass has looked at its rank"
            size = shape[axis]
            assert isinstance(size, int), "the pass has looked at its size"
            self.old[symbol] = size
            inputs[name].shape = ir.Shape(
                [sizes[symbol] if i == axis else dim for i, dim in enumerate(shape)]
            )
        self.new = dict(sizes)
        self.infer()

    def infer(self) -> None:
        """Forget the shapes of what is computed, and infer them."""
        forget_shapes(self.model)
        # Inference leaves outputs alone, whose shapes belong to the user: hide that they are.
        outputs = self.model.graph.outputs
        ends = list(outputs)
        outputs.clear()
        try_infer_shapes(self.model)
        outputs.extend(ends)

    def baked(self) -> Iterator[Baked]:
        """Yield the Reshapes that hold on to an old size."""
        nodes = (node for graph in graphs_within(self.model.graph) for node in graph)
        for number, node in enumerate(nodes):
            if node.domain or node.op_type != "Reshape":
                continue
            data, target = sizes_of(node.inputs[0]), ints_of(node.inputs[1])
            if data is None or target is None:
                continue
            known = math.prod(d for d in _copied(node, data, target) if d != -1)
            total = math.prod(data)
            fits = total == known if -1 not in target else not known or total % known == 0
            better = self._better(node, data, target)
            if better is not None or not fits:
                yield Baked(number, node, target, better)

    def _better(self, node: ir.Node, data: list[int], target: list[int]) -> list[int] | None:
        """Return the target with 0, "as in the input", where an old size means a new one."""
        if node.attributes.get_int("allowzero", 0):
            return None
        pairs = [(self.old[name], size) for name, size in self.new.items()]
        better = [
            0 if i < len(data) and (wanted, data[i]) in pairs else wanted
            for i, wanted in enumerate(target)
        ]
        return None if better == target else better

    def repair(self, baked: Baked) -> None:
        """Give a Reshape the better target."""
        assert baked.better is not None, "it was seen to have one"
        baked.node.replace_input_with(1, constant(self.model, baked.better, "repaired"))

    def contradiction(self) -> str | None:
        """Return which node cannot take these sizes, in the words of shape inference."""
        proto = light_proto(self.model)
        # What inference noted above would hide what it stumbles over.
        proto.graph.ClearField("value_info")
        for output in proto.graph.output:
            if output.type.HasField("tensor_type"):
                output.type.tensor_type.ClearField("shape")
        try:
            infer(proto, strict_mode=True)
        except onnx.shape_inference.InferenceError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            return lines[0] if lines else "no reason given"
        return None


def _copied(node: ir.Node, data: list[int], target: list[int]) -> list[int]:
    """Return the target with what it copies from the input."""
    if node.attributes.get_int("allowzero", 0):
        return target
    return [data[i] if d == 0 and i < len(data) else d for i, d in enumerate(target)]


def forget_shapes(model: ir.Model) -> None:
    """Drop the shapes of all that nodes compute, in subgraphs too, the outputs among it."""
    for graph in graphs_within(model.graph):
        for value in own_values(graph):
            if value.producer() is not None:
                value.shape = None
    for value in model.graph.outputs:
        if not value.is_graph_input() and not value.is_initializer():
            value.shape = None


def constant(model: ir.Model, numbers: list[int], name: str) -> ir.Value:
    """Add a constant of int64 to the main graph, under a name that may be taken."""
    tensor = ir.Tensor(np.array(numbers, dtype=np.int64))
    taken = model.graph.initializers
    free = next(n for i in range(len(taken) + 1) if (n := f"{name}_{i}") not in taken)
    value = ir.val(free, const_value=tensor)
    model.graph.register_initializer(value)
    return value
