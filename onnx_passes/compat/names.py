"""Names of the seed system's passes, and the passes here that do what they mean.

A name that a pass or group here has as well means that one, except in a pipeline file written
for the seed system, which has keys of that system.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from onnx_passes.plain import PlainMapping


@dataclass(frozen=True)
class NameUse:
    """The pass or group that a name means.

    Attributes:
        name: Name of the pass or group.
        options: Options that make the pass mean the same.
    """

    name: str
    options: PlainMapping = field(default_factory=dict)


def _uses(*names: str) -> tuple[NameUse, ...]:
    return tuple(NameUse(name) for name in names)


_NAMES: dict[str, tuple[NameUse, ...]] = {
    "checker": _uses("model-checker"),
    # A pipeline compares with the original there; a bare pass manager has nothing to ask.
    "verify": (),
    "range-annotation": _uses("value-ranges"),
    "eliminate-where": _uses("eliminate-constant-where"),
    "eliminate-common-subexpression": _uses("eliminate-common-subexpressions"),
    "inline": _uses("inline-functions"),
    "inline-gemm": _uses("lower-gemm"),
    "annotate-layouts": _uses("convert-layouts"),
    "lower-pooling": _uses(
        "lower-global-average-pool",
        "lower-global-max-pool",
        "lower-max-pool",
        "lower-average-pool",
    ),
    "MoveSplitPastElementwise": _uses("sink-transposes"),
    "DeMorganBoolean": _uses("simplify-booleans"),
    **{
        f"convert-opset{version}": (NameUse("convert-opset", {"version": version}),)
        for version in range(18, 24)
    },
}

_OF_MODULE: dict[str, tuple[NameUse, ...]] = {
    "analysis.checker": _uses("model-checker"),
    "annotation.layouts": _uses("convert-layouts", "absorb-layouts"),
    "annotation.range": _uses("value-ranges"),
    "annotation.shapes": _uses("shape-inference"),
    "cleanup": _uses("cleanup"),
    "constants": _uses("fold-constants"),
    "convert": _uses("raise-opset"),
    "eliminate.common_subexpression": _uses("eliminate-common-subexpressions"),
    "eliminate.identity": _uses(
        *("eliminate-noop-arithmetic", "eliminate-noop-cast", "eliminate-noop-expand"),
        "eliminate-identity",
    ),
    "eliminate.where": _uses("eliminate-constant-where"),
    "fusion.silu": (NameUse("fuse-silu", {"custom": True}),),
    "fusion.thresholds": _uses("fuse-thresholds"),
    "imports.qonnx": _uses("import-qonnx"),
    "inline.batchnorm": _uses("inline-batchnorm"),
    "inline.functions": _uses("inline-functions"),
    "inline.gemm": _uses("lower-gemm"),
    "inline.qonnx": _uses("inline-qonnx"),
    "inline.thresholds": _uses("inline-thresholds"),
    "lowering.conv": (NameUse("lower-conv", {"to": "im2col"}),),
    "lowering.pooling": _NAMES["lower-pooling"],
    "lowering.sigmoid": _uses("lower-sigmoid"),
    "streamline.algebraic": _uses("algebraic"),
    "streamline.factorize": _uses("factorize"),
    "streamline.reorder": _uses("reorder"),
    "streamline.reorder.transpose": _uses("sink-transposes"),
    "streamline.thresholds": _uses("infer-thresholds", "sort-thresholds"),
    "streamline.unbroadcast": _uses("unbroadcast"),
}
"""What does the same as the classes of a module, which dotted names lead to.

A class that a pass here has the name of is that pass.
"""

_MEANT_OTHERWISE: dict[str, tuple[NameUse, ...]] = {
    "eliminate-identity": _uses("eliminate-noop-arithmetic", "eliminate-identity"),
    "lower-conv": (NameUse("lower-conv", {"to": "im2col"}),),
    "fuse-silu": (NameUse("fuse-silu", {"custom": True}),),
    "reorder": _uses(
        "reorder",
        "eliminate-double-transpose",
        "eliminate-noop-transpose",
        "merge-shape-changes",
        "eliminate-noop-reshape",
        "eliminate-noop-slice",
    ),
}
"""Names that mean something else in the seed system than here."""

KEYS = frozenset(
    {
        "deduplicate_initializers",
        "fold_constants",
        "infer_thresholds",
        "layouts",
        "lift_constants",
        "logging",
        "model_checker",
        "onnxruntime",
        "shape_inference",
    }
)
"""Keys of a pipeline file that only files of the seed system need."""

_TRANSPOSE = re.compile(r"Move(\w+)PastTranspose")
_PAST_TRANSPOSE = re.compile(r"MoveTransposePastElementwise(Unary|Binary|Ternary)")
_PAST_KIND = re.compile(r"MoveElementwise(Unary|Binary|Ternary)PastTranspose")


def is_for_seed(keys: Collection[str]) -> bool:
    """Whether a pipeline file with these keys was written for the seed system."""
    return not KEYS.isdisjoint(keys)


def uses_of(name: str, *, for_seed: bool = False) -> tuple[NameUse, ...] | None:
    """Return what does what a name of the seed system means.

    Args:
        name: A name.
        for_seed: Whether it is from a pipeline that was written for the seed system, where a
            name that a pass here has too can mean something else.

    Returns:
        Passes and groups in order; None for any other name.
    """
    if for_seed and name in _MEANT_OTHERWISE:
        return _MEANT_OTHERWISE[name]
    if name in _NAMES:
        return _NAMES[name]
    if _PAST_TRANSPOSE.fullmatch(name) or _PAST_KIND.fullmatch(name):
        return _uses("sink-transposes")
    if found := _TRANSPOSE.fullmatch(name):
        operator = {"IfInf": "IsInf", "Shrink": "Shrink"}.get(found[1], found[1])
        return (NameUse("sink-transposes", {"operators": [operator]}),)
    return _dotted(name.removeprefix("onnx_passes.passes."))


def _dotted(name: str) -> tuple[NameUse, ...] | None:
    module, dot, cls = name.rpartition(".")
    if not (dot and cls[:1].isupper()):
        return None
    if (found := uses_of(cls)) is not None:
        return found
    while module:
        if module in _OF_MODULE:
            return _OF_MODULE[module]
        module = module.rpartition(".")[0]
    return None
