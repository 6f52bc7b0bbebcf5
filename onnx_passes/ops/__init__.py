"""Operators: what each computes, and those of a domain of our own.

``DOMAIN``, ``domain``, ``op``, ``register`` and ``inject_custom_ops`` have the names and the
meaning of the seed system's; see :mod:`onnx_passes.ops.scripted`.
"""

import importlib
from typing import Any

DOMAIN = "onnx_passes.ops"
"""The domain of this package's own operators."""

_SCRIPTED = ("domain", "inject_custom_ops", "op", "register")
__all__ = ["DOMAIN", *_SCRIPTED]


def __getattr__(name: str) -> Any:
    # onnxscript takes longer to load than the rest of this package.
    if name in _SCRIPTED:
        return getattr(importlib.import_module("onnx_passes.ops.scripted"), name)
    return importlib.import_module("onnx_passes.compat").reexport(__name__, name)
