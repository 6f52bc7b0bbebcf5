"""Remove what a model says about itself and does not compute with."""

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_graphs, all_nodes
from onnx_passes.passes.common.graph_edits import own_values


@passes.verify.equality
@passes.register()
class CleanMetadata(passes.Annotation):
    """Remove what a model says about itself and does not compute with.

    Before: nodes with stack traces of the exporter in ``metadata_props`` and ``doc_string``
    After:  nodes without

    Sound because operators do not read any of it.

    Leaves alone: names of values; the version, opsets and IR version of the model; keys that
    are to be kept; the data of tensors, and the descriptions of attributes, which onnx-ir does
    not let change.

    Attributes:
        doc_strings: Drop the descriptions of the model, graphs, functions, nodes and values.
        metadata_props: Drop the properties of all of these.
        keep: Keys of properties to keep.
        producer: Also drop the name and version of the producer, and the model's domain.
        node_names: Also drop the names of nodes.
    """

    doc_strings: bool = True
    metadata_props: bool = True
    keep: tuple[str, ...] = ()
    producer: bool = False
    node_names: bool = False

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Drop it."""
        modified = False
        for holder in _holders(model):
            if self.doc_strings and holder.doc_string:
                holder.doc_string = None
                modified = True
            if self.metadata_props:
                for key in [k for k in holder.metadata_props if k not in self.keep]:
                    del holder.metadata_props[key]
                    modified = True
        if self.producer:
            for name in ("producer_name", "producer_version", "domain"):
                if getattr(model, name):
                    setattr(model, name, None)
                    modified = True
        if self.node_names:
            for node in all_nodes(model):
                if node.name:
                    node.name = None
                    modified = True
        return ir.passes.PassResult(model, modified=modified)


def _holders(
    model: ir.Model,
) -> Iterator[ir.Model | ir.Function | ir.Graph | ir.Value | ir.Node]:
    yield model
    yield from model.functions.values()
    for graph in all_graphs(model):
        yield graph
        yield from own_values(graph)
        yield from graph
