"""Report the form of the graph: cycles, parts, depth, dominance."""

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import ModelError
from onnx_passes.model.diff import structurally_equal
from onnx_passes.model.load import load_model
from onnx_passes.model.walk import topological_order
from onnx_passes.passes.analysis._sizes import label_of, listed
from onnx_passes.passes.analysis._structure import bottlenecks, components, depth

SHOWN = 10


@dataclass(frozen=True)
class Form:
    """The form of the main graph.

    ``parts`` has the number of nodes of each connected part, the largest first. All data
    passes ``bottlenecks`` on its way to every output, in order. A cycle leaves no ``depth``
    and no ``bottlenecks``. ``isomorphic`` is set where a model was given.
    """

    acyclic: bool
    cycle: str | None
    parts: tuple[int, ...]
    depth: int | None
    bottlenecks: tuple[str, ...]
    isomorphic: bool | None


@passes.register("analysis")
class Structure(passes.Analysis):
    """Report the form of the graph: cycles, parts, depth, dominance.

    Finds: whether the main graph has a cycle, and through which nodes; how many parts it falls
    into, a shared input being a tie and a shared constant none; the number of nodes on the
    longest way; the nodes that dominate every output, where a model can be cut in two; and
    whether it is a copy of another model, up to inner names, the order of independent nodes
    and where constants are kept. A node counts with its subgraphs as one.

    Attributes:
        isomorphic_to: Path of the other model.
    """

    isomorphic_to: str | None = None

    def analyse(self, model: ir.Model) -> Form:
        """Return the form, and note it for the report."""
        found = form_of(model, self.isomorphic_to)
        sizes = ", ".join(f"{size:,}" for size in found.parts[:SHOWN])
        self.context.notes.append(
            f"{found.cycle or 'acyclic'}; "
            + ("connected" if len(found.parts) <= 1 else f"{len(found.parts)} parts ({sizes})")
            + (f"; depth {found.depth:,}" if found.depth is not None else "")
        )
        if found.bottlenecks:
            told = listed(list(found.bottlenecks), SHOWN)
            self.context.notes.append(f"all data goes through {told}")
        if found.isomorphic is not None:
            word = "is a" if found.isomorphic else "is no"
            self.context.notes.append(f"it {word} copy of {self.isomorphic_to}")
        return found


def form_of(model: ir.Model, other: str | None = None) -> Form:
    """Find the form of the main graph."""
    graph, cycle = model.graph, None
    try:
        topological_order(graph)
    except ModelError as error:
        cycle = error.message
    same = None if other is None else not cycle and _equal(model, other)
    return Form(
        cycle is None,
        cycle,
        tuple(len(part) for part in components(graph)),
        None if cycle else depth(graph),
        () if cycle else tuple(label_of(node) for node in bottlenecks(graph)),
        same,
    )


def _equal(model: ir.Model, other: str) -> bool:
    return structurally_equal(model, load_model(other).model)
