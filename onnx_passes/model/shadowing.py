"""Functions of a model that have the name of an operator."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir

_OF_ENGINES = frozenset({"com.microsoft"})
"""Domains whose operators onnx does not know, and an engine may."""


def shadows_operator(key: ir.OperatorIdentifier, imports: Mapping[str, int]) -> bool:
    """Whether a function has the name of an operator, so that a call may mean either.

    ONNX leaves it to the engine. ONNX Runtime runs its own operator, and onnx's evaluator
    runs the function.

    Args:
        key: Domain, name and overload of the function.
        imports: Versions of the domains where it is called.
    """
    domain, name, _ = key
    if domain in _OF_ENGINES:
        return True
    version = imports.get(domain)
    return version is not None and onnx.defs.has(name, version, domain)
