"""The names of operators that users write."""

from __future__ import annotations

from functools import cache

import onnx

from onnx_passes.passes.naming import did_you_mean

MAIN = "ai.onnx"


def known_operator(name: str) -> str:
    """Return an operator as statistics name it.

    Args:
        name: ``Conv``, or ``domain::Op``; what domains hold that ONNX does not define is not
            known, and left as it is.

    Raises:
        ValueError: ONNX defines the domain, and no such operator in it.
    """
    domain, _, operator = name.rpartition("::")
    domain = "" if domain == MAIN else domain
    known = _operators().get(domain)
    if known is not None and operator not in known:
        hint = did_you_mean(operator, known, "other domains are written domain::Op")
        raise ValueError(f"no operator of ONNX is named {name!r}; {hint}")
    return f"{domain}::{operator}" if domain else operator


@cache
def _operators() -> dict[str, set[str]]:
    """Return the operators of every version, by domain."""
    found: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault(schema.domain, set()).add(schema.name)
    return found
