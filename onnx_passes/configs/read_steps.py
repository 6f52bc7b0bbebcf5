"""Steps as a pipeline file spells them.

A step is a name, the text of a pipeline, ``{name: {option: value}}`` with settings beside the
name, ``{group: [...]}`` with settings beside it, ``checkpoint``, or
``{checkpoint: {name: ...}}``.
"""

from __future__ import annotations

from onnx_passes.configs.pipeline_text import parse_pipeline
from onnx_passes.configs.problems import checked, described, located
from onnx_passes.configs.source import Source
from onnx_passes.configs.steps import (
    Checkpoint,
    CheckpointSettings,
    Group,
    GroupSettings,
    PassUse,
    Places,
    Step,
    UseSettings,
)
from onnx_passes.configs.yaml_tree import Path, Tree
from onnx_passes.errors import ConfigError
from onnx_passes.plain import Plain, PlainDict

_FORMS = (
    "a step is a pass name, {pass: {option: value}}, {group: [...], repeat: fixpoint}, "
    "or 'checkpoint'"
)

_FIXPOINT = "write '- group: [...]' and, right below 'group', 'repeat: fixpoint'"


def read_steps(data: Plain, tree: Tree, path: Path) -> tuple[Step, ...]:
    """Return the steps of a list, or of the text of a pipeline.

    Args:
        data: Plain data; steps that are read already are kept.
        tree: Where things were written.
        path: Where ``data`` stands in the tree.

    Raises:
        ConfigError: Something is not a step.
    """
    if data is None:
        return ()
    if isinstance(data, str):
        return tuple(_from_text(data, tree, path))
    if not isinstance(data, list | tuple):
        raise ConfigError(
            f"{'.'.join(map(str, path))}: expected a list of steps, got {described(data)}",
            where=located(tree.value(path)),
            help=_FORMS,
        )
    return tuple(
        step for i, item in enumerate(data) for step in _read_item(item, tree, (*path, i))
    )


def _read_item(item: Plain, tree: Tree, path: Path) -> list[Step]:
    if isinstance(item, PassUse | Group | Checkpoint):
        return [item]
    if isinstance(item, str):
        return _from_text(item, tree, path)
    if isinstance(item, dict) and item:
        return [_from_mapping(item, tree, path)]
    raise ConfigError(
        f"{described(item)} is not a step", where=located(tree.value(path)), help=_FORMS
    )


def _from_text(text: str, tree: Tree, path: Path) -> list[Step]:
    span = tree.value(path)
    if span is None:
        return parse_pipeline(text)
    raw = span.source.line(span.line)
    for quote in (0, 1):  # a plain scalar, or one in quotes without escapes
        column = span.column + quote
        if raw[column : column + len(text)] == text:
            return parse_pipeline(text, span.source, span.offset + quote)
    return parse_pipeline(text, Source(span.place, text, is_file=False))


def _from_mapping(item: PlainDict, tree: Tree, path: Path) -> Step:
    if "group" in item:
        return _group(item, tree, path)
    if "checkpoint" in item:
        return _checkpoint(item, tree, path)
    names = [key for key in item if key not in UseSettings.model_fields]
    if len(names) != 1:
        at = (*path, names[1]) if names else path
        raise ConfigError(
            f"one step names {len(names)} passes: {', '.join(names)}"
            if names
            else "this step names no pass",
            where=located(tree.key(at)),
            help="give each pass its own '- ', and indent its options below its name",
        )
    (name,) = names
    if name == "fixpoint":
        raise ConfigError(
            "'fixpoint' is not a pass", where=located(tree.key((*path, name))), help=_FIXPOINT
        )
    options = {} if item[name] is None else item[name]
    if not isinstance(options, dict):
        raise ConfigError(
            f"the options of {name!r} are {described(options)}, not a mapping",
            where=located(tree.value((*path, name))),
            help=f"write {name}: {{option: value}}",
        )
    settings = {key: value for key, value in item.items() if key != name}
    use = checked(UseSettings, settings, tree, path)
    places = Places.of(tree.key((*path, name)), tree, (*path, name))
    return PassUse(name, options, use.on_failure, use.tolerance, places)


def _group(item: PlainDict, tree: Tree, path: Path) -> Group:
    rest = {key: value for key, value in item.items() if key != "group"}
    settings = checked(GroupSettings, rest, tree, path)
    steps = read_steps(item["group"], tree, (*path, "group"))
    if not steps:
        raise ConfigError("the group has no steps", where=located(tree.key((*path, "group"))))
    default = "group" if settings.repeat == "once" else "fixpoint"
    places = Places(tree.key((*path, "group")))
    return Group(steps, settings.name or default, settings.repeat, settings.limit, places)


def _checkpoint(item: PlainDict, tree: Tree, path: Path) -> Checkpoint:
    at = (*path, "checkpoint")
    for key in item:
        if key != "checkpoint":
            raise ConfigError(
                f"a checkpoint has no setting {key!r}", where=located(tree.key((*path, key)))
            )
    data = {} if item["checkpoint"] is None else item["checkpoint"]
    settings = checked(CheckpointSettings, data, tree, at)
    return Checkpoint(settings.name, Places(tree.key(at)))
