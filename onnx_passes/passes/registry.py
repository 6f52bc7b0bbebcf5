"""Names to passes.

A pass is known by its pipeline name (``merge-clips``), by its class name (``MergeClips``) and
by every name or group that it was registered under. A group stands for its passes in the order
of registration, except where one says that it ``precedes`` others.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import TypeVar

from onnx_passes.errors import ConfigError, UnknownPassError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.naming import did_you_mean
from onnx_passes.passes.seed_names import uses_of

PassT = TypeVar("PassT", bound=type[Pass])

ENTRY_POINTS = "onnx_passes.passes"

_passes: dict[str, type[Pass]] = {}
_groups: dict[str, list[type[Pass]]] = {}
_discovered = False


def register(name_or_group: str | None = None) -> Callable[[PassT], PassT]:
    """Make a pass available by name; stack it to put the pass into several groups.

    Args:
        name_or_group: A further name or a group; the class name and its pipeline form
            (``merge-clips`` for ``MergeClips``) are always known.

    Raises:
        ConfigError: It is not a pass, has abstract methods, or another pass has its name.
    """

    def inner(cls: PassT) -> PassT:
        if not (isinstance(cls, type) and issubclass(cls, Pass)):
            raise ConfigError(
                f"{cls!r} is not a pass", help="derive it from onnx_passes.passes.base.Pass"
            )
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise ConfigError(
                f"the pass {cls.__name__} cannot be made: it lacks {', '.join(missing)}",
                help="derive it from Transformation or Analysis as well",
            )
        for name in (cls.name, cls.__name__):
            _claim(name, cls)
        if name_or_group is not None and _passes.get(name_or_group) is not cls:
            if name_or_group in _passes:
                raise _clash(name_or_group, _passes[name_or_group], cls)
            members = _groups.setdefault(name_or_group, [])
            members[:] = [m for m in members if not _same_source(m, cls)] + [cls]
        return cls

    return inner


def lookup(name: str, *, where: str | None = None) -> list[type[Pass]]:
    """Return the pass called ``name``, or the passes of the group.

    Names of the seed system that nothing here has mean the passes that do the same.

    Raises:
        UnknownPassError: Nothing has that name; the error suggests the closest.
    """
    discover()
    if name in _passes:
        return [_passes[name]]
    if name in _groups:
        return _in_order(_groups[name])
    uses = uses_of(name)
    if uses is not None:
        return [cls for use in uses for cls in lookup(use.name)]
    known = {*(cls.name for cls in _passes.values()), *_groups}
    hint = did_you_mean(
        name, known, "run 'onnx-passes list', or name its module in 'imports:'"
    )
    raise UnknownPassError(f"no pass or group is named {name!r}", where=where, help=hint)


def is_known(name: str) -> bool:
    """Whether a pass or group has this name."""
    discover()
    return name in _passes or name in _groups


def collect(names: Iterable[str | type[Pass]]) -> list[type[Pass]]:
    """Return the passes that ``names`` stand for, in order; classes stand for themselves."""
    return [cls for key in names for cls in ([key] if isinstance(key, type) else lookup(key))]


def all_passes() -> list[type[Pass]]:
    """Return every registered pass once, sorted by name."""
    discover()
    return sorted(set(_passes.values()), key=lambda cls: cls.name)


def groups() -> dict[str, list[type[Pass]]]:
    """Return every group with its passes."""
    discover()
    return {name: _in_order(members) for name, members in sorted(_groups.items())}


def discover() -> None:
    """Import the pass library and the passes that installed packages announce, once."""
    global _discovered
    if _discovered:
        return
    _discovered = True
    package = importlib.import_module("onnx_passes.passes")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:
            raise ConfigError(
                f"the package of entry point {entry.name!r} fails to import: {error}",
                help=f"repair or uninstall the package that provides {entry.value!r}",
            ) from error


def _in_order(members: Iterable[type[Pass]]) -> list[type[Pass]]:
    left, ordered = list(members), []
    while left:
        waiting = {name for cls in left for name in cls.precedes}
        first = next((cls for cls in left if cls.name not in waiting), left[0])
        left.remove(first)
        ordered.append(first)
    return ordered


def _claim(name: str, cls: type[Pass]) -> None:
    owner = _passes.get(name)
    if owner is not None and not _same_source(owner, cls):
        raise _clash(name, owner, cls)
    if name in _groups and any(not _same_source(m, cls) for m in _groups[name]):
        raise _clash(name, _groups[name][0], cls)
    _passes[name] = cls


def _same_source(a: type[Pass], b: type[Pass]) -> bool:
    """Whether two classes are one definition, imported again."""
    return a is b or (_source(a) == _source(b) and a.__qualname__ == b.__qualname__)


def _source(cls: type[Pass]) -> str:
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or cls.__module__


def _clash(name: str, old: type[Pass], new: type[Pass]) -> ConfigError:
    places = " and ".join(f"{c.__module__}.{c.__qualname__}" for c in (old, new))
    return ConfigError(f"two passes are named {name!r}: {places}", help="rename one of them")
