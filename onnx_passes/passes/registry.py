"""Names to passes: registration, discovery, and which of two passes of one name is meant.

Passes come from the library, from packages that announce them, and from modules of a pipeline.
A module that a pipeline imports may define names of the library again, for that pipeline only.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar

from onnx_passes.compat.names import uses_of
from onnx_passes.errors import ConfigError, UnknownPassError, did_you_mean
from onnx_passes.library_index import ENTRY_POINTS, FOLDER, PACKAGE, library_index
from onnx_passes.passes.base import Pass, is_shipped
from onnx_passes.passes.kinds import in_order
from onnx_passes.passes.options import pipeline_name


@dataclass(frozen=True)
class Scope:
    """Whose passes win where a name is a pass of the library as well.

    Modules in the packages of ``modules`` count, as do those from files in ``folder``.
    """

    modules: Collection[str] = ()
    folder: Path | None = None

    def has(self, cls: type[Pass]) -> bool:
        """Whether a pass is from one of the modules."""
        if cls.__module__.partition(".")[0] in {m.partition(".")[0] for m in self.modules}:
            return True
        return self.folder is not None and Path(source_of(cls)).is_relative_to(self.folder)


LIBRARY = Scope()
"""No pipeline: each name means a pass of the library, if it has one."""


def scope_of(cls: type[Pass], modules: Collection[str]) -> Scope:
    """Return whose passes win where a pass names others.

    A pass of the library means those of the library.
    """
    return LIBRARY if is_shipped(cls) else Scope(modules, Path(source_of(cls)).parent)


def same_source(a: type[Pass], b: type[Pass]) -> bool:
    """Whether two classes are one definition, imported again."""
    return a is b or (source_of(a) == source_of(b) and a.__qualname__ == b.__qualname__)


def source_of(cls: type[Pass]) -> str:
    """Return the file that a pass is defined in; the name of its module if there is none."""
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or cls.__module__


def clash(name: str, old: type[Pass], new: type[Pass]) -> ConfigError:
    """Return the error that two passes have one name."""
    places = " and ".join(f"{c.__module__}.{c.__qualname__}" for c in (old, new))
    return ConfigError(
        f"two passes are named {name!r}: {places}",
        help="rename one of them, or name its module in a pipeline's 'imports:'",
    )


def import_library() -> None:
    """Import every module of the library that may hold passes."""
    for module in pkgutil.walk_packages([str(FOLDER)], f"{PACKAGE}."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)


def import_announced() -> None:
    """Import the passes that installed packages announce by an entry point.

    Raises ConfigError if one of them fails to import.
    """
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:
            raise ConfigError(
                f"the package of entry point {entry.name!r} fails to import: {error}",
                help=f"repair or uninstall the package that provides {entry.value!r}",
            ) from error


PassT = TypeVar("PassT", bound=type[Pass])

_passes: dict[str, type[Pass]] = {}
_groups: dict[str, list[type[Pass]]] = {}
_shadowing: dict[str, list[type[Pass]]] = {}  # other passes under names of the library's
_imported: set[type[Pass]] = set()  # those that were registered for a pipeline
_for_pipeline = ContextVar("for_pipeline", default=False)
_discovered = False
_announced = False


@contextmanager
def for_pipeline() -> Iterator[None]:
    """Register what is imported inside for the pipelines that import it."""
    token = _for_pipeline.set(True)
    try:
        yield
    finally:
        _for_pipeline.reset(token)


def register(name_or_group: str | None = None) -> Callable[[PassT], PassT]:
    """Make a pass available by name; stack it to put the pass into several groups.

    Args:
        name_or_group: A further name or a group; the class name and its pipeline form
            (``merge-clips`` for ``MergeClips``) are always known.

    Raises:
        ConfigError: It is not a pass, has abstract methods, or another pass has its name.
    """
    if isinstance(name_or_group, type):
        raise ConfigError(
            f"{name_or_group.__name__} is decorated without parentheses",
            help="write @passes.register()",
        )

    def inner(cls: PassT) -> PassT:
        if not (isinstance(cls, type) and issubclass(cls, Pass)):
            raise ConfigError(
                f"{cls!r} is not a pass", help="derive it from onnx_passes.passes.base.Pass"
            )
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise ConfigError(
                f"the pass {cls.__name__} cannot be made: it lacks {', '.join(missing)}",
                help="derive it from Transformation or Analysis as well"
                if "in_place" in missing
                else "define them in the class",
            )
        for name in (cls.name, cls.__name__):
            joins = name == name_or_group or cls in _groups.get(name, ())
            _claim(name, cls, joins=joins)
        if name_or_group is not None:
            _join(name_or_group, cls)
        if _for_pipeline.get():
            _imported.add(cls)
        return cls

    return inner


def lookup(
    name: str, *, where: str | None = None, scope: Scope | None = None
) -> list[type[Pass]]:
    """Return the pass called ``name``, or the passes of the group.

    Names of the seed system that nothing here has mean the passes that do the same. ``where``
    is an excerpt for messages. The library looks up its own names without ``scope``. Raises
    UnknownPassError, which suggests the closest name, or ConfigError if a pass that no
    pipeline imported claims a library name.
    """
    _import(name)
    if scope is not None and (own := _own(name, scope)):
        return in_order(own)
    for cls in () if scope is None else _shadowing.get(name, ()):
        if cls not in _imported:
            raise clash(name, _passes.get(name) or _groups[name][0], cls)
    if name in _passes and not _is_group(name):
        return [_passes[name]]
    if name in _groups:
        return in_order(_members(name))
    if (uses := uses_of(name)) is not None:
        return [cls for use in uses for cls in lookup(use.name)]
    known = {*(cls.name for cls in _passes.values()), *groups()}
    hint = did_you_mean(
        name, known, "run 'onnx-passes list', or name its module in 'imports:'"
    )
    module = name.replace("-", "_")
    if module.isidentifier() and Path(f"{module}.py").is_file():
        ways = f"-s imports=[{module}], or certify --rules {module}:CLASS"
        hint = f"{module}.py is here, and not imported: {ways}"
    raise UnknownPassError(f"no pass or group is named {name!r}", where=where, help=hint)


def is_shadowed(name: str, scope: Scope) -> bool:
    """Whether a name means passes of a pipeline's own, in place of the library's."""
    _import(name)
    return bool(_own(name, scope))


def is_known(name: str) -> bool:
    """Whether a pass or group has this name."""
    _import(name)
    return _has(name)


def imported_pass(name: str) -> type[Pass] | None:
    """Return the pass of a name if its module is imported; None otherwise. Imports nothing."""
    return _passes.get(name)


def unique_name(cls: type[Pass]) -> str:
    """Return a name of a pass that means it alone: its own, if no group has it as well."""
    _import(cls.name)
    shared = _is_group(cls.name) or len(_shadowing.get(cls.name, ())) > 1
    return cls.__name__ if shared else cls.name


def collect(names: Iterable[str | type[Pass]], scope: Scope = LIBRARY) -> list[type[Pass]]:
    """Return the passes that ``names`` name, in order; classes name themselves.

    Args:
        names: Names of passes and groups, or classes.
        scope: The passes of the pipeline's own modules.
    """
    found = ([key] if isinstance(key, type) else lookup(key, scope=scope) for key in names)
    return [cls for classes in found for cls in classes]


def members_of(group: str) -> list[str | type[Pass]]:
    """Return the passes of a group: the names of the library's, of others their classes."""
    _load_entry_points()
    index = None if _discovered else library_index()
    if index is None:
        return [*lookup(group)]
    others = (cls for cls in _groups.get(group, ()) if not is_shipped(cls))
    return [*map(pipeline_name, index.groups.get(group, ())), *others]


def all_passes(scope: Scope = LIBRARY) -> list[type[Pass]]:
    """Return every registered pass once, sorted by name."""
    discover()
    own = {cls for name in _shadowing for cls in _own(name, scope)}
    return sorted(own | set(_passes.values()), key=lambda cls: (cls.name, cls.__module__))


def groups() -> dict[str, list[type[Pass]]]:
    """Return every group with its passes."""
    discover()
    return {
        name: in_order(_members(name))
        for name in sorted(_groups)
        if name not in _passes or _is_group(name)
    }


def discover() -> None:
    """Import the pass library and the passes that installed packages announce, once."""
    global _discovered
    if _discovered:
        return
    _discovered = True
    import_library()
    _load_entry_points()


def registered_groups() -> dict[str, list[type[Pass]]]:
    """Return the passes of the library by each name or group that they register under."""
    discover()
    shipped = {name: list(filter(is_shipped, found)) for name, found in _groups.items()}
    return {name: found for name, found in shipped.items() if found}


def _import(name: str) -> None:
    """Import the passes of a name or group: all of them if the index does not have it."""
    if _discovered:
        return
    _load_entry_points()
    index = library_index()
    if index is None or (name not in index and not _has(name)):
        discover()
        return
    for module in index.modules_of(name):
        importlib.import_module(module)
    if not _has(name):  # the index is older than the sources
        discover()


def _has(name: str) -> bool:
    return name in _passes or name in _groups


def _load_entry_points() -> None:
    global _announced
    if _announced:
        return
    _announced = True
    import_announced()


def _members(name: str) -> list[type[Pass]]:
    """Return the passes of a group: the library's in the order of the index, then others."""
    found = _groups[name]
    index = library_index()
    listed = [] if index is None else list(index.groups.get(name, ()))
    rank = {class_name: number for number, class_name in enumerate(listed)}
    return sorted(
        found,
        key=lambda cls: rank.get(cls.__name__, len(rank)) if is_shipped(cls) else len(rank),
    )


def _own(name: str, scope: Scope) -> list[type[Pass]]:
    return [cls for cls in _shadowing.get(name, ()) if scope.has(cls)]


def _is_group(name: str) -> bool:
    """Whether several passes were registered under a name, and not one under its own."""
    members = _groups.get(name, ())
    return len(members) > 1 or (name not in _passes and bool(members))


def _claim(name: str, cls: type[Pass], *, joins: bool) -> None:
    """Make a name of a class mean it.

    With ``joins``, the class is registered under the name as well, as others may be.
    """
    owners = [m for m in (_passes.get(name), *_groups.get(name, ())) if m is not None]
    for other in (m for m in owners if not same_source(m, cls)):
        if is_shipped(other) and not is_shipped(cls) and not (joins and _is_open(name)):
            _shadow(name, other, cls)
            return
        if is_shipped(cls) and not is_shipped(other):
            _withdraw(name, other)
            _shadow(name, cls, other)
        elif not (joins and _is_open(name)):
            if name not in _passes and other.__module__ == cls.__module__:
                return  # what its module registers under the name keeps it
            raise clash(name, other, cls)
    if name not in _passes or same_source(_passes[name], cls):
        _passes[name] = cls


def _join(name: str, cls: type[Pass]) -> None:
    """Put a class into a group, or add it to those that share its name."""
    owner = _passes.get(name)
    if owner is None or same_source(owner, cls) or _is_open(name):
        if cls not in _shadowing.get(name, ()):
            _add(_groups, name, cls)
    elif is_shipped(owner) and not is_shipped(cls):
        _shadow(name, owner, cls)
    else:
        raise clash(name, owner, cls)


def _is_open(name: str) -> bool:
    """Whether more passes may be registered under a name: no single pass here has it."""
    owner = _passes.get(name)
    return owner is None or (not is_shipped(owner) and owner in _groups.get(name, ()))


def _shadow(name: str, old: type[Pass], new: type[Pass]) -> None:
    _add(_shadowing, name, new)
    new.in_place_of = f"{old.__module__}.{old.__qualname__}"


def _withdraw(name: str, cls: type[Pass]) -> None:
    if _passes.get(name) is cls:
        del _passes[name]
    if cls in _groups.get(name, ()):
        _groups[name].remove(cls)


def _add(table: dict[str, list[type[Pass]]], name: str, cls: type[Pass]) -> None:
    members = table.setdefault(name, [])
    members[:] = [m for m in members if not same_source(m, cls)] + [cls]
