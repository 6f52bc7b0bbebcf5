"""Report which values have no fixed shape, and where that begins."""

from dataclasses import dataclass

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.analysis._sizes import label_of, listed, sized
from onnx_passes.passes.common.graph_edits import own_values
from onnx_passes.passes.common.shapes import sizes_of


@dataclass(frozen=True)
class ShapeReport:
    """Which values have no fixed shape.

    ``values`` counts constants too. ``dynamic`` has shapes as text, ``symbols`` the number of
    values by dimension of the inputs. ``sources`` are nodes that make dimensions which none of
    their inputs has: these depend on data (NonZero), or inference does not see through.
    """

    values: int
    dynamic: dict[str, str]
    unranked: tuple[str, ...]
    symbols: dict[str, int]
    sources: tuple[str, ...]


@passes.register("analysis")
class DynamicShapes(passes.Analysis):
    """Report which values have no fixed shape, and where that begins.

    Finds: the values with a dimension that is not a number after shape inference, and those
    without a known rank; how many values each dynamic dimension of the inputs reaches; and the
    nodes that make dimensions of their own. These depend on data, as of NonZero, or are what
    inference does not see through. Functions are inlined; subgraphs count.

    Attributes:
        dims: Sizes of dynamic dimensions, by name, to see what stays dynamic then.
    """

    dims: dict[str, int] = Field(default_factory=dict)

    def analyse(self, model: ir.Model) -> ShapeReport:
        """Return what is dynamic, and note it for the report."""
        found = report_shapes(sized(model, self.dims, self.name))
        open_ = len(found.dynamic) + len(found.unranked)
        self.context.notes.append(
            f"{open_:,} of {found.values:,} values have no fixed shape"
            if open_
            else f"all {found.values:,} values have a fixed shape"
        )
        for name, count in found.symbols.items():
            self.context.notes.append(f"dimension {name!r} reaches {count:,} values")
        if found.unranked:
            told = listed(list(found.unranked))
            self.context.notes.append(f"no rank is known of {told}")
        if found.sources:
            told = listed(list(found.sources), 10)
            self.context.notes.append(f"dimensions begin at {told}")
        return found


def dynamic_values(model: ir.Model) -> list[ir.Value]:
    """Return the tensors without a fixed shape of a model whose shapes are inferred."""
    return [
        value
        for graph in graphs_within(model.graph)
        for value in own_values(graph)
        if value.name and sizes_of(value) is None and _is_tensor(value)
    ]


def report_shapes(model: ir.Model) -> ShapeReport:
    """Report on a model without functions whose shapes are inferred."""
    graphs = list(graphs_within(model.graph))
    dynamic = dynamic_values(model)
    symbols = dict.fromkeys(n for v in model.graph.inputs for n in _names(v))
    return ShapeReport(
        sum(bool(value.name) for graph in graphs for value in own_values(graph)),
        {value.name or "": str(value.shape) for value in dynamic if value.shape is not None},
        tuple(value.name or "" for value in dynamic if value.shape is None),
        {name: sum(name in _names(value) for value in dynamic) for name in symbols},
        tuple(label_of(node) for graph in graphs for node in graph if _begins(node)),
    )


def _begins(node: ir.Node) -> bool:
    """Whether a node makes a dimension that is in none of the shapes that it reads."""
    inputs = [value for value in node.inputs if value is not None]
    if any(value.shape is None for value in inputs if _is_tensor(value)):
        return False
    known = {name for value in inputs for name in _names(value)}
    return any(
        value.name and _is_tensor(value) and (value.shape is None or _fresh(value, known))
        for value in node.outputs
    )


def _fresh(value: ir.Value, known: set[str]) -> bool:
    dims = value.shape or ()
    return any(not isinstance(dim, int) and dim.value not in known for dim in dims)


def _names(value: ir.Value) -> set[str]:
    dims = value.shape or ()
    return {dim.value for dim in dims if not isinstance(dim, int) and dim.value is not None}


def _is_tensor(value: ir.Value) -> bool:
    return value.type is None or isinstance(value.type, ir.TensorType)
