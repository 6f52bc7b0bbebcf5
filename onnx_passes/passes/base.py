"""The kinds of pass, as their authors import them."""

from onnx_ir.passes import FunctionalPass
from onnxscript.rewriter._basics import MatchContext

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
    "MatchContext",
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
