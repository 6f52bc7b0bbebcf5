"""Modules of the seed system that its clients import, served from this folder.

A finder makes them when they are imported, after all files: a module here that has such a name
would hide it. ``names`` says what the names of passes and keys of its pipeline files mean.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PASSES = {
    "analysis": "checker",
    "annotation": "layouts range shapes",
    "cleanup": "constants names remove sort",
    "eliminate": "common_subexpression identity where",
    "fusion": "silu thresholds",
    "imports": "qonnx",
    "inline": "batchnorm functions gemm qonnx thresholds",
    "lowering": "conv pooling sigmoid",
    "streamline": "reorder thresholds",
    "streamline.algebraic": "bitwise boolean comparison matmul numeric reduce",
    "streamline.reorder": "concat im2col shapes slice split transpose",
}
"""Modules of passes. A class in them is the pass here that has its name."""

_OPERATORS = {
    "argsort": "ArgSort",
    "im2col": "Im2Col",
    "inverse_swish": "InverseSwish InverseSilu",
    "lambertw": "LambertW",
    "layouts": "LayoutConverter",
    "qonnx": "Quant",
    "round": "Round",
    "swish": "Swish Silu",
    "thresholds": "MultiThreshold",
    "ulp": "Any Log2 Ulp",
}
"""Modules of operators of our own domain, and their names."""

_COPIES = {
    "onnx_passes.passes.streamline.algebraic._properties": "operator_properties",
    "onnx_passes.passes.util": "util",
    "onnx_passes.tests.base": "checks",
    **{
        f"onnx_passes.traits.{kind}{ending}": "operator_properties"
        for kind in ("elementwise", "pooling", "reduction")
        for ending in ("", "_operators")
    },
}
"""Modules whose names are all in one of this folder."""

_HELPERS: Mapping[str, Mapping[str, str]] = {
    "onnx_passes.passes.annotation.range": {"_get_range": "get_range"},
    "onnx_passes.passes.streamline.reorder.concat": {"_is_same_op": "is_same_op"},
    "onnx_passes.passes.runtime": {"evaluate_model": "evaluate_model"},
    "onnx_passes.utils.networkx": {"is_isomorphic": "is_isomorphic"},
    "onnx_passes.ops.qonnx": {"DOMAIN": "QONNX", "BREVITAS_DOMAIN": "BREVITAS"},
}
"""Further names in modules, and what they are called in ``util``."""

_PACKAGES = frozenset(
    f"onnx_passes.{name}"
    for name in (
        *("passes.imports", "passes.streamline.algebraic", "passes.streamline.reorder"),
        *("tests", "traits", "utils"),
    )
)

_REEXPORTS: Mapping[str, Mapping[str, str]] = {
    "onnx_passes.passes": {
        name: f"onnx_passes.passes.{name}"
        for name in (
            *("analysis", "annotation", "cleanup", "convert", "eliminate", "fusion"),
            *("imports", "inline", "lowering", "streamline"),
        )
    },
    "onnx_passes.passes.base": {
        "InPlacePass": "onnx_ir.passes:InPlacePass",
        "PassBase": "onnx_ir.passes:PassBase",
        "RewritePass": "onnxscript.rewriter:RewritePass",
        "RewriteRuleSet": "onnxscript.rewriter.pattern:RewriteRuleSet",
        "remove_unused_nodes": "onnxscript.optimizer:remove_unused_nodes",
    },
    "onnx_passes.passes.compose": {"is_isomorphic": "onnx_passes.compat.util:is_isomorphic"},
    "onnx_passes.ops": {
        "InjectCustomOps": "onnx_passes.passes.quantised.inject_ops:InjectOps"
    },
}
"""Further names in modules that have a file here: a module, or what it has of some name."""

MODULES = frozenset(
    {
        f"onnx_passes.passes.{at}.{name}"
        for at, names in _PASSES.items()
        for name in names.split()
    }
    | {f"onnx_passes.ops.{name}" for name in _OPERATORS}
    | {*_COPIES, *_HELPERS, *_PACKAGES}
)
"""Full names of all that is served."""


class _Finder(MetaPathFinder, Loader):
    """Makes a module, if no file has its name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MODULES:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in _PACKAGES)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name in _COPIES:
            found = vars(import_module(f"{__name__}.{_COPIES[name]}"))
            module.__dict__.update({k: v for k, v in found.items() if not k.startswith("__")})
            return
        for theirs, ours in _HELPERS.get(name, {}).items():
            setattr(module, theirs, getattr(import_module(f"{__name__}.util"), ours))
        folder, _, leaf = name.rpartition(".")
        if folder == "onnx_passes.ops":
            from onnx_passes.ops.scripted import named

            for operator in _OPERATORS[leaf].split():
                setattr(module, operator, named(operator))
        else:
            module.__dict__["__getattr__"] = _pass_of


def _pass_of(name: str) -> Any:
    from onnx_passes.errors import UnknownPassError
    from onnx_passes.passes.registry import lookup

    if not name.startswith("_"):
        try:
            return lookup(name)[0]
        except UnknownPassError:
            pass
    raise AttributeError(f"this package has no pass {name!r}")


def reexport(module: str, name: str) -> object:
    """Return what the seed system has under a name in a module; AttributeError if nothing.

    Args:
        module: Full name of the module.
        name: The name.
    """
    place, _, inner = _REEXPORTS.get(module, {}).get(name, "").partition(":")
    if not place:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    found = import_module(place)
    return getattr(found, inner) if inner else found


def install() -> None:
    """Let Python find the modules, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
