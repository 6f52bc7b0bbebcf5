"""Modules of the seed system that its files import, and that this package has no files for.

Its passes are registered by their modules; here all are, so that most of these are empty.
The name of a class in them is that of the pass here that has it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PASSES = "onnx_passes.passes."

_BY_PACKAGE = {
    "analysis": "checker",
    "annotation": "layouts range shapes",
    "cleanup": "constants names remove sort",
    "eliminate": "common_subexpression identity where",
    "fusion": "silu thresholds",
    "inline": "batchnorm functions gemm thresholds",
    "lowering": "conv pooling sigmoid",
    "streamline": "reorder thresholds",
    "streamline.algebraic": "bitwise boolean comparison matmul numeric reduce",
    "streamline.reorder": "concat im2col shapes slice split transpose",
}

_HELPERS: Mapping[str, Mapping[str, str]] = {
    _PASSES + "annotation.range": {"_get_range": "get_range"},
    _PASSES + "streamline.reorder.concat": {"_is_same_op": "is_same_op"},
    _PASSES + "runtime": {"evaluate_model": "evaluate_model"},
    "onnx_passes.utils.networkx": {"is_isomorphic": "is_isomorphic"},
}
"""What is found in them: functions of :mod:`onnx_passes.passes.util`, by their names there."""

_PACKAGES = frozenset({_PASSES + "streamline.reorder", "onnx_passes.utils"})

_MODULES = frozenset(
    {f"{_PASSES}{at}.{name}" for at, names in _BY_PACKAGE.items() for name in names.split()}
    | _PACKAGES
    | set(_HELPERS)
)


class _SeedModules(MetaPathFinder, Loader):
    """Makes the modules, if no file has their names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _MODULES:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in _PACKAGES)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from onnx_passes.passes import util

        for name, ours in _HELPERS.get(module.__name__, {}).items():
            setattr(module, name, getattr(util, ours))
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


def install() -> None:
    """Let Python find the modules, once."""
    if not any(isinstance(finder, _SeedModules) for finder in sys.meta_path):
        sys.meta_path.append(_SeedModules())
