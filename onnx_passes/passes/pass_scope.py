"""Which of two passes of one name is meant: whose modules a pipeline imports.

A module that a pipeline imports may give its passes names that passes here have. In that
pipeline, and in no other, the names mean the passes of the module.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from onnx_passes.errors import ConfigError
from onnx_passes.passes.kinds import Pass, is_shipped


@dataclass(frozen=True)
class Scope:
    """Whose passes win where a name is a pass of the library as well.

    Attributes:
        modules: Modules that a pipeline imports; those in the same packages count.
        folder: Modules from files in it count as well; None for no folder.
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

    Args:
        cls: The pass that names them; one of the library means those of the library.
        modules: Modules that the pipeline imports.
    """
    return LIBRARY if is_shipped(cls) else Scope(modules, Path(source_of(cls)).parent)


def same_source(a: type[Pass], b: type[Pass]) -> bool:
    """Whether two classes are one definition, imported again.

    Args:
        a: A class.
        b: Another one, or the same.
    """
    return a is b or (source_of(a) == source_of(b) and a.__qualname__ == b.__qualname__)


def source_of(cls: type[Pass]) -> str:
    """Return the file that a pass is defined in; the name of its module if there is none."""
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or cls.__module__


def clash(name: str, old: type[Pass], new: type[Pass]) -> ConfigError:
    """Return the error that two passes have one name.

    Args:
        name: The name.
        old: The pass that has it.
        new: The pass that claims it.
    """
    places = " and ".join(f"{c.__module__}.{c.__qualname__}" for c in (old, new))
    return ConfigError(
        f"two passes are named {name!r}: {places}",
        help="rename one of them, or name its module in a pipeline's 'imports:'",
    )
