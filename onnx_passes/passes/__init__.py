"""The pass author's vocabulary; the passes themselves are one per file below."""

from importlib import import_module
from typing import Any

from onnxscript.rewriter._basics import MatchContext, MatchResult

from onnx_passes.passes import base, compose, verify
from onnx_passes.passes.base import (
    Analysis,
    Annotation,
    Op,
    Pass,
    RewriteRulePass,
    RewriteRuleSetPass,
    Transformation,
    Value,
    Var,
)
from onnx_passes.passes.compose import ComposePass
from onnx_passes.passes.constants import constant, is_constant
from onnx_passes.passes.options import MIB, Size
from onnx_passes.passes.registry import collect, register

__all__ = [
    "MIB",
    "Analysis",
    "Annotation",
    "ComposePass",
    "MatchContext",
    "MatchResult",
    "Op",
    "Pass",
    "RewriteRulePass",
    "RewriteRuleSetPass",
    "Size",
    "Transformation",
    "Value",
    "Var",
    "base",
    "collect",
    "compose",
    "constant",
    "is_constant",
    "register",
    "verify",
]


def __getattr__(name: str) -> Any:
    # The seed system's name for it; onnxscript functions take long to load.
    if name == "inject_custom_ops":
        from onnx_passes.ops.scripted import inject_custom_ops

        return inject_custom_ops
    return import_module("onnx_passes.compat").reexport(__name__, name)
