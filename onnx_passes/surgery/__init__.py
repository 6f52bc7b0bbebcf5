"""Build and edit models by hand."""

from onnx_passes.model.copy import copy_model as copy
from onnx_passes.model.diff import structurally_equal
from onnx_passes.model.digest import canonical_hash
from onnx_passes.model.extract import Cut
from onnx_passes.model.walk import all_nodes
from onnx_passes.surgery.builder import Builder
from onnx_passes.surgery.graph_edits import (
    cleanup,
    consumer,
    extract,
    fold_constants,
    insert,
    insert_after,
    insert_before,
    load,
    producer,
    remove,
    rename,
    replace,
    save,
    to_constant,
    to_variable,
    toposort,
)
from onnx_passes.surgery.sanitizing import sanitize
from onnx_passes.surgery.weights import restore_weights, strip_weights

__all__ = [
    "Builder",
    "Cut",
    "all_nodes",
    "canonical_hash",
    "cleanup",
    "consumer",
    "copy",
    "extract",
    "fold_constants",
    "insert",
    "insert_after",
    "insert_before",
    "load",
    "producer",
    "remove",
    "rename",
    "replace",
    "restore_weights",
    "sanitize",
    "save",
    "strip_weights",
    "structurally_equal",
    "to_constant",
    "to_variable",
    "toposort",
]
