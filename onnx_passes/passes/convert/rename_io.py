"""Rename inputs and outputs of the model."""

from types import MappingProxyType

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.passes.context import InterfaceMap
from onnx_passes.passes.convert._ports import find, rename_ports
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import PlainMapping


@passes.verify.equality
@passes.register()
class RenameIo(passes.Transformation):
    """Rename inputs and outputs of the model.

    Before: ``(float[3] input.1) => (float[3] 495)`` with ``inputs: {input.1: image}``
    After:  ``(float[3] image) => (float[3] 495)``

    Two may exchange their names. An inner value that has a name that an input or output gets
    is renamed. Quantization annotations follow the names they refer to.

    Sound because names only connect values with their readers, and the readers follow; feeds
    under the new names give outputs under the new names that are the same.

    Leaves alone: order, types and shapes; all that is not named.

    Attributes:
        inputs: New names of inputs, by their old ones.
        outputs: New names of outputs, by their old ones.
    """

    interface_changes = frozenset({"inputs", "outputs"})
    example = MappingProxyType({"inputs": {}})

    inputs: dict[str, str] = Field(default_factory=dict)
    outputs: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def example_for(cls, model: ir.Model) -> PlainMapping:
        """Rename the first input and the first output."""
        graph = model.graph
        return {
            "inputs": {str(value.name): "renamed_input" for value in graph.inputs[:1]},
            "outputs": {str(value.name): "renamed_output" for value in graph.outputs[:1]},
        }

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rename."""
        graph = model.graph
        inputs = find(graph.inputs, self.inputs, self.name, "input")
        outputs = find(graph.outputs, self.outputs, self.name, "output")
        wanted = dict(zip(inputs, self.inputs.values(), strict=True))
        wanted |= dict(zip(outputs, self.outputs.values(), strict=True))
        wanted = {value: name for value, name in wanted.items() if value.name != name}
        rename_ports(model, wanted, Namer(model), self.name)
        return ir.passes.PassResult(model, modified=bool(wanted))

    def interface_map(self, before: ir.Model) -> InterfaceMap:
        """Translate the names."""
        old = {new: name for name, new in self.inputs.items()}
        return InterfaceMap(
            lambda name, value: (self.inputs.get(name, name), value),
            lambda name, value: (old.get(name, name), value),
            lambda name, value: (self.outputs.get(name, name), value),
            self._wrap,
        )

    def _wrap(self, model: ir.Model) -> None:
        self.call(model)
