"""Modules that are imported when something of them is first used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader, find_spec
from types import ModuleType

SYMBOLIC = ("sympy", "onnx_ir._symbolic_shapes")
"""What onnx-ir imports to calculate with symbolic dimensions, half of its own start-up."""


class _Finder(MetaPathFinder):
    def __init__(self, names: Sequence[str]) -> None:
        self.names = set(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as others do, and have it loaded later."""
        del path, target
        if name not in self.names:
            return None
        self.names.remove(name)  # so that the next line does not end up here again
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def defer(names: Sequence[str] = SYMBOLIC) -> None:
    """Put off importing modules, those excepted that are there already.

    A command that never needs them is spared their start-up; whoever uses an attribute of
    them imports them then. This is for the program, which knows what it will do: a library
    must not change how its users import.
    """
    left = [name for name in names if name not in sys.modules]
    if left:
        sys.meta_path.insert(0, _Finder(left))
