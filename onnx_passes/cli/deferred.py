"""Modules that are imported when something of them is first used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

SYMBOLIC = ("sympy", "onnx_ir._symbolic_shapes")
"""What onnx-ir imports to calculate with symbolic dimensions, half of its own start-up."""
REFERENCE = ("onnx.reference", "onnx.reference.ops")
"""Where onnxscript folds constants: onnx's operators, two hundred modules."""
SCRIPTED = ("onnxscript", "onnxscript.optimizer", "onnxscript.rewriter")
"""Packages that import onnxscript's compiler, its operators and its own rules: ninety modules.
Passes need ten modules inside of them, which are imported without what is around them."""
TEXTUAL = (
    *("google.protobuf.json_format", "google.protobuf.text_format"),
    "google.protobuf.internal.python_message",
)
"""Protobuf's text and JSON forms, and its messages without C, which onnx imports."""
TOOLS = ("onnx.compose", "onnx.gen_proto", "onnx.utils")
"""What onnx offers beside models, with archives and command lines."""

_loading = RLock()


_PUBLIC = ("__all__", "__version__")
"""Names with underscores that a module sets itself, and users ask for."""


class _Late(ModuleType):
    """A module before its first use."""

    def __getattribute__(self, name: str) -> object:
        """Load the module, once, unless it is the import system that asks.

        The modules inside a package that waits are imported without it.
        """
        if not name.startswith("__") or name in _PUBLIC:
            with _loading:
                if "__late__" in self.__dict__ and _is_inside(self, name):
                    return import_module(f"{self.__name__}.{name}")
                loader = self.__dict__.pop("__late__", None)
                if loader is not None:
                    loader.exec_module(self)
                    object.__setattr__(self, "__class__", ModuleType)
        return ModuleType.__getattribute__(self, name)  # it may no longer be one of these


def _is_inside(package: ModuleType, name: str) -> bool:
    """Whether a name of a package is that of a module inside of it."""
    if "__path__" not in package.__dict__ or name in _PUBLIC:
        return False
    return find_spec(f"{package.__name__}.{name}") is not None


class _LateLoader:
    # Not importlib's LazyLoader: before Python 3.11.9 it hands a second thread, which comes
    # while a first one loads, a module without what has not run yet.
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what the loader would."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Put off what the loader would do."""
        module.__dict__["__late__"] = self.loader
        object.__setattr__(module, "__class__", _Late)


class _Finder:
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
            spec.loader = _LateLoader(spec.loader)  # type: ignore[assignment]  # a duck of one
        return spec


def defer(
    names: Sequence[str] = SYMBOLIC + REFERENCE + SCRIPTED + TEXTUAL + TOOLS,
) -> None:
    """Put off importing modules, those excepted that are there already.

    A command that never needs them is spared their start-up; whoever uses an attribute of
    them imports them then. This is for the program, which knows what it will do: a library
    must not change how its users import.
    """
    left = [name for name in names if name not in sys.modules]
    if left:
        sys.meta_path.insert(0, _Finder(left))
