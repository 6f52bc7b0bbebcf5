"""One hash of a candidate and the values that it is fed, so that none is judged twice."""

from __future__ import annotations

import hashlib

import numpy as np
import onnx_ir as ir

from onnx_passes.model.digest import tensor_digest
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.weightless import split_weights


def hash_of(model: ir.Model, feeds: Feeds) -> str:
    """Hash a model and the values of its inputs, names included.

    Args:
        model: The model.
        feeds: Inputs by name.
    """
    split = split_weights(model)
    content = hashlib.blake2b(
        split.proto.SerializeToString(deterministic=True), digest_size=16
    )
    for name, tensor in sorted(split.weights.items()):
        content.update(name.encode() + tensor_digest(tensor))
    for name, data in sorted(feeds.items()):
        if isinstance(data, np.ndarray):
            content.update(f"{name} {data.dtype} {data.shape}".encode())
            content.update(data.tobytes() if data.dtype != object else repr(data).encode())
        else:
            content.update(repr(data).encode())
    return content.hexdigest()
