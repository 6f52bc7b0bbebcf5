"""The kinds of pass, as their authors import them."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

from onnx_ir.passes import FunctionalPass
from onnxscript.rewriter._basics import MatchContext, MatchResult
from onnxscript.rewriter.pattern import RewriteRule as _RewriteRule

from onnx_passes.passes.context import InterfaceMap
from onnx_passes.passes.context import PassContext as _PassContext
from onnx_passes.passes.kinds import (
    ALL,
    Analysis,
    Annotation,
    Pass,
    Transformation,
    is_shipped,
)
from onnx_passes.passes.rewriting import (
    Op,
    RewriteRulePass,
    RewriteRuleSetPass,
    Rule,
    Value,
    Var,
)

__all__ = [
    "ALL",
    "Analysis",
    "Annotation",
    "FunctionalPass",
    "InterfaceMap",
    "MatchContext",
    "MatchResult",
    "Op",
    "Pass",
    "RewriteRulePass",
    "RewriteRuleSetPass",
    "Rule",
    "Transformation",
    "Value",
    "Var",
    "is_shipped",
]

_MOVED: dict[str, tuple[object, str]] = {
    "PassContext": (_PassContext, "onnx_passes.passes.context"),
    "RewriteRule": (_RewriteRule, "onnxscript.rewriter"),
}
"""Names that leave this module with the next release, and where they are."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _MOVED:
            return import_module("onnx_passes.compat").reexport(__name__, name)
        found, place = _MOVED[name]
        warning = f"{__name__}.{name} is going to be removed: import it from {place}"
        warnings.warn(warning, DeprecationWarning, stacklevel=2)
        return found
