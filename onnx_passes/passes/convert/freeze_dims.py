"""Replace dynamic dimensions by a fixed size."""

from collections.abc import Mapping

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.common.graph_edits import own_values
from onnx_passes.passes.options import did_you_mean
from onnx_passes.plain import PlainMapping


@passes.verify.equality
@passes.register()
class FreezeDims(passes.Transformation):
    """Replace dynamic dimensions by a fixed size.

    Before: ``(float[batch, 3] x) => (float[batch, 3] y)`` with ``dims: {batch: 1}``
    After:  ``(float[1, 3] x) => (float[1, 3] y)``

    The name means the dimension wherever it occurs: inputs, outputs and inner values. One
    without a name is that of an input and an axis: ``x[0]``.

    Sound because for inputs of that size nothing changes; other sizes are refused from now on.

    Leaves alone: dimensions that are not named in ``dims``, functions.

    Attributes:
        dims: Sizes by the names of dimensions.
    """

    interface_changes = frozenset({"dims"})

    dims: dict[str, int] = Field(default_factory=dict)

    @classmethod
    def example_for(cls, model: ir.Model) -> PlainMapping:
        """Freeze the first dimension that is dynamic."""
        names = [name for value in model.graph.inputs for name in _names(value) if name]
        return {"dims": dict.fromkeys(names[:1], 3)}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the names by their sizes."""
        interface = {dim: None for value in model.graph.inputs for dim in _names(value) if dim}
        for name, size in self.dims.items():
            if name not in interface:
                known = ", ".join(interface) or "none"
                raise PassError(
                    f"freeze-dims: no input has a dimension {name!r}",
                    help=did_you_mean(name, interface, f"its dimensions are: {known}"),
                )
            if size < 0:
                raise PassError(
                    f"freeze-dims: dimension {name!r} cannot have size {size}",
                    help="a size is 0 or more",
                )
        modified = False
        for graph in graphs_within(model.graph):
            for value in own_values(graph):
                modified |= _freeze(value, self.dims)
        return ir.passes.PassResult(model, modified=modified)


def _names(value: ir.Value) -> list[str]:
    """Return the name of each dimension; "" for those of fixed size."""
    return [
        dim.value or f"{value.name}[{axis}]" if isinstance(dim, ir.SymbolicDim) else ""
        for axis, dim in enumerate(value.shape or ())
    ]


def _freeze(value: ir.Value, sizes: Mapping[str, int]) -> bool:
    names = _names(value)
    if value.shape is None or sizes.keys().isdisjoint(names):
        return False
    shape = value.shape.copy()
    for axis, name in enumerate(names):
        shape[axis] = sizes.get(name, shape[axis])
    value.shape = shape
    return True
