"""Plant a fault in a helper of the library, wherever the library uses it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from benchmarks.faults.case import Plant
from onnx_passes.passes import registry

_LIBRARY = "onnx_passes."


def function(module: str, name: str, wrong: Callable[[Any], Any]) -> Plant:
    """Return a plant that replaces a function in each module of the library that holds it.

    A helper that a pass and the verifier share is thus wrong for both. If the verifier has a
    function of its own, that one stays right.

    Args:
        module: Where the function is defined.
        name: Its name.
        wrong: Makes the wrong function from the right one.
    """

    @contextmanager
    def plant() -> Iterator[None]:
        registry.discover()  # a module that is imported meanwhile keeps the wrong function
        right = getattr(import_module(module), name)
        new = wrong(right)
        _replace(right, new)
        try:
            yield
        finally:
            _replace(new, right)

    return plant


def method(module: str, path: str, wrong: Callable[[Any], Any]) -> Plant:
    """Return a plant that replaces a method.

    Args:
        module: Where the class is defined.
        path: Class and method, with a dot between them.
        wrong: Makes the wrong method from the right one.
    """
    owner, name = path.split(".")

    @contextmanager
    def plant() -> Iterator[None]:
        cls = getattr(import_module(module), owner)
        right = cls.__dict__[name]
        setattr(cls, name, wrong(right))
        try:
            yield
        finally:
            setattr(cls, name, right)

    return plant


def _replace(old: Any, new: Any) -> None:
    for module in _modules():
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def _modules() -> list[ModuleType]:
    loaded = list(sys.modules.items())
    return [module for name, module in loaded if name.startswith(_LIBRARY)]


def plant(module: str, name: str, wrong: Callable[[Any], Any]) -> Plant:
    """Return a plant of a method, where the name has a dot, or a function."""
    return (method if "." in name else function)(module, name, wrong)
