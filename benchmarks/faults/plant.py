"""Plant a fault in a helper of the library, wherever the library uses it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from benchmarks.faults.case import Plant
from onnx_passes.passes import registry

_LIBRARY = "onnx_passes."


def plant(module: str, name: str, wrong: Callable[[Any], Any]) -> Plant:
    """Return a plant of a method, where the name has a dot, or a function.

    A function is replaced in each module of the library that holds it: a helper that a pass
    and the verifier share is thus wrong for both. If the verifier has a function of its own,
    that one stays right.

    Args:
        module: Where it is defined.
        name: Its name; class and method have a dot between them.
        wrong: Makes the wrong one from the right one.
    """
    owner, _, attribute = name.rpartition(".")

    @contextmanager
    def planted() -> Iterator[None]:
        registry.discover()  # a module that is imported meanwhile keeps the wrong function
        holder: Any = import_module(module)
        places = [getattr(holder, owner)] if owner else _modules()
        right = vars(places[0] if owner else holder)[attribute]
        new = wrong(right)
        _replace(places, right, new)
        try:
            yield
        finally:
            _replace(places, new, right)

    return planted


def _replace(places: Sequence[Any], old: Any, new: Any) -> None:
    for place in places:
        for name, value in list(vars(place).items()):
            if value is old:
                setattr(place, name, new)


def _modules() -> list[ModuleType]:
    loaded = list(sys.modules.items())
    return [module for name, module in loaded if name.startswith(_LIBRARY)]
