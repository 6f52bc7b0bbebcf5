"""Rename values and nodes so that each has a name of its own."""

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes.common.graph_edits import own_values, rename_value


@passes.verify.equality
@passes.register("cleanup")
class UniqueNames(passes.Annotation):
    """Rename values and nodes so that each has a name of its own.

    Before: both branches of an If define ``t``, and two nodes are named ``add``
    After:  ``t`` and ``t_1``, ``add`` and ``add_1``

    Names are unique over the main graph, all subgraphs and all functions. A node without a
    name is called after its operator. Quantization annotations follow the names they refer to.

    Sound because names only connect values with their readers, and the readers follow.

    Leaves alone: the names of the model's inputs and outputs; the first holder of a name;
    optional outputs that are left out (their name is empty).

    Attributes:
        name_all: Also name the nodes that have no name, which takes a tenth of a small file.
    """

    name_all: bool = True

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rename what repeats a name."""
        renamed = _name_values(model) + _name_nodes(model, name_all=self.name_all)
        return ir.passes.PassResult(model, modified=renamed > 0)


class _Names:
    """Names given and names asked for; the first to ask for a name gets it."""

    def __init__(self, wishes: Iterable[str | None]) -> None:
        self._wanted = {wish for wish in wishes if wish}
        self._given: set[str] = set()
        self._counts: Counter[str] = Counter()

    def give(self, wish: str | None, otherwise: str) -> str:
        name = wish or otherwise
        if name in self._given or (not wish and name in self._wanted):
            stem = name
            while name in self._given or name in self._wanted:
                self._counts[stem] += 1
                name = f"{stem}_{self._counts[stem]}"
        self._given.add(name)
        return name


def _name_values(model: ir.Model) -> int:
    interface = dict.fromkeys((*model.graph.inputs, *model.graph.outputs))
    inner = (v for g in all_graphs(model) for v in own_values(g) if v.name or v.uses())
    values = [*interface, *(v for v in inner if v not in interface)]
    names = _Names(value.name for value in values)
    renamed = 0
    for value in values:
        producer = value.producer()
        new = names.give(value.name, producer.op_type.lower() if producer else "value")
        if new != value.name and value not in interface:
            rename_value(value, new)
            renamed += 1
    return renamed


def _name_nodes(model: ir.Model, *, name_all: bool) -> int:
    nodes = [n for graph in all_graphs(model) for n in graph if n.name or name_all]
    names = _Names(node.name for node in nodes)
    renamed = 0
    for node in nodes:
        new = names.give(node.name, node.op_type.lower())
        if new != node.name:
            node.name = new
            renamed += 1
    return renamed
