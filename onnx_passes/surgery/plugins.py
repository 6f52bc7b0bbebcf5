"""TensorRT plugins: the patterns of operators that they replace, and their nodes.

A plugin is a class with a pattern, in a file of the user's:

    from onnx_passes.surgery.plugins import Plugin

    class SkipNorm(Plugin):
        \"\"\"A sum and the normalisation behind it.\"\"\"

        creator = "CustomSkipNorm"

        def pattern(self, op, x, skip, scale, bias):
            return op.LayerNormalization(op.Add(x, skip), scale, bias, _outputs=["out"])

The node reads what the pattern names, in that order. TensorRT's parser finds the plugin by the
node's operator, and by the attributes ``plugin_version`` and ``plugin_namespace``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import onnx_ir as ir

from onnx_passes.errors import ConfigError, OnnxPassesError, UsageError
from onnx_passes.model.copy import copy_model
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.passes.context import Application, PassContext, Rewrites
from onnx_passes.plain import PlainMapping

DOMAIN = "trt.plugins"
"""Domain of nodes of plugins: an ONNX model needs one, and TensorRT does not look at it."""


class Plugin(Transformation, RewriteRulePass):
    """A plugin, and the operators that it replaces.

    Attributes:
        creator: Name of the plugin, as its library registers it.
        version: Version of the plugin.
        namespace: Namespace of the plugin.
        results: Number of values that the pattern returns.
    """

    creator: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    namespace: ClassVar[str] = ""
    results: ClassVar[int] = 1

    def attributes(self, **values: Value) -> PlainMapping:
        """Return the fields of the plugin for a match; by default none.

        Args:
            values: What the pattern names, by name.
        """
        return {}

    def rewrite(self, op: Op, **values: Value) -> Var:
        """Build the node of the plugin."""
        names = list(inspect.signature(self.pattern).parameters)[1:]
        make = getattr(op, self.creator)
        return make(
            *(values[name] for name in names),
            **self.attributes(**values),
            plugin_version=self.version,
            plugin_namespace=self.namespace,
            _domain=DOMAIN,
            _outputs=self.results,
        )


@dataclass(frozen=True)
class Match:
    """A place where a plugin matches.

    ``number`` counts from 1, in the order in which :func:`replace` proceeds. ``nodes`` are
    replaced by ``node``, both as text; it computes ``values``.
    """

    number: int
    plugin: str
    nodes: tuple[str, ...]
    node: str
    values: tuple[str, ...]


def load_plugins(sources: Sequence[str | Path]) -> list[type[Plugin]]:
    """Import the plugins of Python files, or of modules that are installed.

    Sources that end in ``.py`` are paths, others names of modules. Their code runs.
    ConfigError if one cannot be imported, holds no plugin, or if a plugin has no name.
    """
    found: dict[str, type[Plugin]] = {}
    for source in map(str, sources):
        module = _import(source)
        own = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Plugin) and value is not Plugin
        ]
        own = [cls for cls in own if not inspect.isabstract(cls)]
        if not own:
            raise ConfigError(
                f"{source} holds no plugin",
                help="write a class that extends onnx_passes.surgery.plugins.Plugin",
            )
        for cls in own:
            if not cls.creator:
                raise ConfigError(f"{source}: {cls.__name__} does not say its 'creator'")
            found[cls.__qualname__] = cls
    return list(found.values())


def find_matches(model: ir.Model, plugins: Sequence[type[Plugin]]) -> list[Match]:
    """Return the places where plugins match, tried in order; change nothing."""
    return replace(copy_model(model), plugins)


def replace(
    model: ir.Model, plugins: Sequence[type[Plugin]], only: Collection[int] = ()
) -> list[Match]:
    """Replace operators by nodes of plugins, tried in order.

    ``only`` has numbers of matches, as :func:`find_matches` numbers them; empty for all.
    UsageError if there is no match of such a number.
    """
    keys: frozenset[str] | None = None
    if only:
        known = dict(enumerate(_apply(copy_model(model), plugins, None), 1))
        if unknown := sorted(set(only) - known.keys()):
            raise UsageError(
                f"there is no match {unknown[0]}", help=f"there are {len(known)} matches"
            )
        keys = frozenset(known[number][1].key for number in only)
    done = _apply(model, plugins, keys)
    return [
        Match(
            number,
            cls.creator,
            application.nodes,
            "; ".join(application.new_nodes),
            tuple(old for old, _ in application.replaced),
        )
        for number, (cls, application) in enumerate(done, 1)
    ]


def _apply(
    model: ir.Model, plugins: Sequence[type[Plugin]], only: frozenset[str] | None
) -> list[tuple[type[Plugin], Application]]:
    found: list[tuple[type[Plugin], Application]] = []
    for cls in plugins:
        plugin = cls()
        plugin.context = PassContext(Rewrites(only=only))
        try:
            plugin(model)
        except OnnxPassesError:
            raise
        except Exception as error:  # whatever its pattern raises
            raise ConfigError(
                f"the pattern of {cls.__qualname__} cannot be used: "
                f"{type(error).__name__}: {error}",
                help="a pattern is written with op, and returns what op returned",
            ) from error
        found += [(cls, application) for application in plugin.context.rewrites.applied]
    return found


def _import(source: str) -> ModuleType:
    try:
        if not source.endswith(".py"):
            return importlib.import_module(source)
        path = Path(source).absolute()
        name = f"onnx_passes_plugins_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the module raises
        raise ConfigError(
            f"{source} cannot be imported: {type(error).__name__}: {error}",
            help="give a .py file, or the name of an installed module",
        ) from error
    return module
