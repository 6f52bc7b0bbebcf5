"""Build and edit models by hand."""

from onnx_passes.model.copy import copy_model as copy
from onnx_passes.model.equality import structurally_equal
from onnx_passes.model.extract import Cut
from onnx_passes.model.fingerprint import canonical_hash
from onnx_passes.model.walk import all_nodes
from onnx_passes.surgery.builder import Builder
from onnx_passes.surgery.cutting import extract
from onnx_passes.surgery.graph_edits import (
    consumer,
    insert_after,
    insert_before,
    producer,
    remove,
    replace,
    to_constant,
    to_variable,
)
from onnx_passes.surgery.model_files import load, save
from onnx_passes.surgery.model_names import rename, set_metadata
from onnx_passes.surgery.model_parts import insert, split
from onnx_passes.surgery.prune import Pruned, prune
from onnx_passes.surgery.sanitizing import sanitize
from onnx_passes.surgery.tidy import cleanup, fold_constants, toposort
from onnx_passes.surgery.weights import restore_weights, strip_weights

__all__ = [
    "Builder",
    "Cut",
    "Pruned",
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
    "prune",
    "remove",
    "rename",
    "replace",
    "restore_weights",
    "sanitize",
    "save",
    "set_metadata",
    "split",
    "strip_weights",
    "structurally_equal",
    "to_constant",
    "to_variable",
    "toposort",
]
