"""The model before a pass, and what the pass really changed.

A snapshot shares weights with the model. So that a pass cannot change them behind its back,
the arrays are made read-only: an edit in place raises inside the pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import onnx_ir as ir

from onnx_passes.surgery.digest import Key, digest, leaf_key, shape_key, type_key
from onnx_passes.surgery.fingerprint import canonical_hash
from onnx_passes.surgery.walk import all_tensors


class Change(StrEnum):
    """What differs between two states of a model.

    NONE: nothing. NAMES: only names, order, metadata or how weights are stored. ANNOTATIONS:
    also types and shapes of inner values. COMPUTATION: nodes, weights, or the interface.
    """

    NONE = "none"
    NAMES = "names"
    ANNOTATIONS = "annotations"
    COMPUTATION = "computation"


class Snapshot:
    """A copy of a model that nothing can change.

    Attributes:
        model: The copy. Do not hand it to a pass: hand it :meth:`restore`.
        hash: Its canonical hash.
    """

    def __init__(self, model: ir.Model) -> None:
        """Copy ``model``; its weights are shared and become read-only."""
        freeze(model)
        self.model = model.clone()
        self._key = exact_key(model)
        self._hash: str | None = None

    @property
    def hash(self) -> str:
        """Canonical hash of the copy, annotations included."""
        if self._hash is None:
            self._hash = canonical_hash(self.model)
        return self._hash

    def restore(self) -> ir.Model:
        """Return a model equal to the one that was copied, bit for bit."""
        return self.model.clone()

    def change(self, model: ir.Model) -> Change:
        """Say in what ``model`` differs from the copy, by comparing."""
        if exact_key(model) == self._key:
            return Change.NONE
        if canonical_hash(model) == self.hash:
            return Change.NAMES
        plain = canonical_hash(model, annotations=False)
        if plain == canonical_hash(self.model, annotations=False):
            return Change.ANNOTATIONS
        return Change.COMPUTATION


def freeze(model: ir.Model) -> None:
    """Make the arrays of all weights read-only."""
    for tensor in all_tensors(model):
        raw = getattr(tensor, "raw", None)
        if isinstance(raw, np.ndarray) and raw.flags.writeable:
            raw.flags.writeable = False


def exact_key(model: ir.Model) -> bytes:
    """Hash everything that saving the model would write, weights by identity."""
    functions = tuple(
        (
            identifier,
            tuple(map(_attribute, function.attributes.values())),
            tuple(sorted(function.opset_imports.items())),
            function.doc_string,
            _graph(function.graph),
        )
        for identifier, function in model.functions.items()
    )
    header = (model.ir_version, model.producer_name, model.producer_version, model.domain)
    extra = (model.model_version, model.doc_string, _metadata(model.metadata_props))
    imports = tuple(sorted(model.opset_imports.items()))
    return digest(header, extra, imports, functions, _graph(model.graph))


def _graph(graph: ir.Graph) -> Key:
    return (
        graph.name,
        graph.doc_string,
        _metadata(graph.metadata_props),
        tuple(map(_value, graph.inputs)),
        tuple((name, id(v.const_value), _value(v)) for name, v in graph.initializers.items()),
        tuple(map(_node, graph)),
        tuple(_name(value) for value in graph.outputs),
    )


def _node(node: ir.Node) -> Key:
    return (
        node.domain,
        node.op_type,
        node.overload,
        node.name,
        node.doc_string,
        tuple(map(_name, node.inputs)),
        tuple(map(_value, node.outputs)),
        tuple(map(_attribute, node.attributes.values())),
        _metadata(node.metadata_props),
    )


def _attribute(attribute: ir.Attr) -> Key:
    if attribute.is_ref() or attribute.value is None:
        return leaf_key(attribute)
    match attribute.type:
        case ir.AttributeType.GRAPH:
            return (attribute.name, _graph(attribute.as_graph()))
        case ir.AttributeType.GRAPHS:
            return (attribute.name, tuple(map(_graph, attribute.as_graphs())))
        case ir.AttributeType.TENSOR:
            return (attribute.name, id(attribute.value))
    return (attribute.name, leaf_key(attribute))


def _value(value: ir.Value) -> Key:
    return (
        value.name,
        type_key(value.type),
        shape_key(value.shape),
        value.doc_string,
        _metadata(value.metadata_props),
    )


def _name(value: ir.Value | None) -> str | None:
    return None if value is None else value.name


def _metadata(properties: Mapping[str, str]) -> Key:
    return tuple(sorted(properties.items())) if properties else ()
