"""Pipeline files from paths and from the package, with single keys changed by ``--set``.

Pipelines that ship with the package can be extended by a user's file.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from importlib import resources
from itertools import takewhile
from pathlib import Path

from onnx_passes.configs.problems import described, dotted, located, validate_section
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.steps import Step, parse_pipeline, read_steps
from onnx_passes.configs.yaml_tree import Source, Span, Tree, YamlPath, parse_value, parse_yaml
from onnx_passes.errors import ConfigError, did_you_mean
from onnx_passes.plain import Plain, PlainMapping

_FOLDER = "onnx_passes.configs"


def shipped_configs() -> list[str]:
    """Return the names of the pipelines that ship with the package."""
    files = (Path(entry.name) for entry in resources.files(_FOLDER).iterdir())
    return sorted(file.stem for file in files if file.suffix == ".yaml")


def shipped_source(name: str) -> Source:
    """Return the text of a pipeline that ships with the package."""
    return Source(name, resources.files(_FOLDER).joinpath(f"{name}.yaml").read_text("utf-8"))


def shipped_summary(name: str) -> str:
    """Return what the comment of a shipped pipeline says first, up to a pause."""
    lines = shipped_source(name).text.splitlines()
    head = takewhile(lambda line: line.startswith("# "), lines)
    return re.split(r"[.:;](?: |$)", " ".join(line[2:] for line in head))[0]


def shipped_steps(name: str) -> tuple[Step, ...]:
    """Return the steps of a pipeline that ships with the package."""
    tree = parse_yaml(shipped_source(name))
    assert isinstance(tree.data, dict)
    return read_steps(tree.data["passes"], tree, ("passes",))


def extend(tree: Tree) -> Tree:
    """Return a file with what it takes from the pipeline that its key ``extends`` names.

    Steps come after those of that pipeline, sections are merged, and other keys replace its.
    ConfigError if the package has no pipeline of that name.
    """
    own = tree.data
    if not isinstance(own, dict) or (name := own.get("extends")) is None:
        return tree
    if name not in (known := shipped_configs()):
        raise ConfigError(
            f"'extends' names a shipped pipeline, not {described(name)}",
            where=located(tree.value(("extends",))),
            help=did_you_mean(str(name), known, f"shipped are {', '.join(known)}"),
        )
    base = parse_yaml(shipped_source(str(name)))
    assert isinstance(base.data, dict)
    steps = base.data.get("passes")
    more = own.get("passes") or []
    assert isinstance(steps, list), "each shipped pipeline has a list"
    merged = _merged(base.data, own)
    assert isinstance(merged, dict)
    listed = more if isinstance(more, list) else [more]
    merged["passes"] = [*steps, *listed]
    keys, values = (
        {**old, **{_behind(place, len(steps)): span for place, span in new.items()}}
        for old, new in ((base.keys, tree.keys), (base.values, tree.values))
    )
    return Tree(merged, keys, values)


def _merged(old: Plain, new: Plain) -> Plain:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def _behind(place: YamlPath, count: int) -> YamlPath:
    """Return where a part of a step stands behind the steps of another file."""
    if place[:1] != ("passes",) or len(place) == 1:
        return place
    return ("passes", int(place[1]) + count, *place[2:])


_PART = re.compile(r""""([^"]*)"|'([^']*)'|([^.="'\s]+)""")
_HELP = (
    "write KEY=VALUE, such as verify.scope=model or passes.0.fold-constants.size_limit=1; a "
    "file of state, which -s is in the seed system, is not read"
)


def apply_override(tree: Tree, text: str) -> None:
    """Change one key of a pipeline file in place.

    `text` is ``KEY=VALUE``. Keys are joined by dots, list items are numbers from 0, a key that
    holds a dot is quoted, and the value is YAML. ConfigError if it is not an assignment, or
    its key leads through something that is neither a mapping nor a list.
    """
    source = Source("--set", text, is_file=False)
    parts, begin = _split(source)
    value = parse_value(source, begin, len(text))
    if not value.values:
        value.values[()] = source.span(0, begin)
    if tree.data is None:
        tree.data = {}
    container: Plain = tree.data
    path: YamlPath = ()
    for index, (part, span) in enumerate(parts):
        key = _key(container, path, part, span)
        path = (*path, key)
        if index == len(parts) - 1:
            container[key] = value.data
            tree.graft(path, value)
            tree.keys[path] = span
        else:
            if isinstance(key, str) and container.get(key) is None:
                container[key] = {}
                tree.keys[path] = tree.values[path] = span
            container = container[key]


def _split(source: Source) -> tuple[list[tuple[str, Span]], int]:
    """Return the parts of the key, and the offset of the value."""
    parts: list[tuple[str, Span]] = []
    pos = 0
    while True:
        match = _PART.match(source.text, pos)
        if match is None:
            raise ConfigError("expected a key", where=source.span(pos).where, help=_HELP)
        part = next(group for group in match.groups() if group is not None)
        parts.append((part, source.span(match.start(), match.end())))
        pos = match.end() + 1
        follows = source.text[pos - 1 : pos]
        if follows == "=":
            return parts, pos
        if follows != ".":
            raise ConfigError("expected '='", where=source.span(pos - 1).where, help=_HELP)


def _key(container: Plain, path: YamlPath, part: str, span: Span) -> str | int:
    """Return ``part`` as a key of ``container``."""
    if isinstance(container, dict):
        return part
    if not isinstance(container, list):
        raise ConfigError(
            f"'{dotted(path)}' is {described(container)}, which has no key {part!r}",
            where=span.where,
            help=f"set '{dotted(path)}' as a whole",
        )
    if not part.isdecimal() or not part.isascii() or int(part[:9]) >= len(container):
        items = f"items 0 to {len(container) - 1}" if container else "no items"
        raise ConfigError(
            f"'{dotted(path)}' is a list with {items}, and {part!r} is none of them",
            where=span.where,
            help=f"set '{dotted(path)}' as a whole",
        )
    return int(part)


MAX_BYTES = 1 << 20


def load_config(
    path_or_name: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    extra_passes: Sequence[str] = (),
    first_passes: Sequence[str] = (),
) -> PipelineConfig:
    """Read a pipeline file.

    A name is that of a pipeline of the package; a path that exists wins. `overrides` are
    ``KEY=VALUE``. Steps of `extra_passes` run after the file's, `first_passes` before.
    ConfigError says where the file is wrong.
    """
    name = os.fspath(path_or_name)
    if not os.path.lexists(name) and name in shipped_configs():
        source, folder = shipped_source(name), Path.cwd()
    else:
        source, folder = _read(name), Path(name).absolute().parent
    tree = parse_yaml(source)
    if tree.data is None:
        raise ConfigError(
            f"{name} is empty",
            help="a pipeline file has at least 'passes:' with a list of passes",
        )
    if not isinstance(tree.data, dict):
        raise ConfigError(
            f"a pipeline file is a mapping, not {described(tree.data)}",
            where=located(tree.value(())),
            help="put 'passes:' on the line before, and indent the passes below it",
        )
    return _build(tree, name, folder, overrides, extra_passes, first_passes)


def default_config(
    overrides: Sequence[str] = (), extra_passes: Sequence[str] = ()
) -> PipelineConfig:
    """Return what runs without a pipeline file: `extra_passes`, changed by `overrides`."""
    return _build(Tree({}), "(defaults)", Path.cwd(), overrides, extra_passes)


def config_from_data(
    data: PlainMapping, folder: str | os.PathLike[str] | None = None
) -> PipelineConfig:
    """Return the pipeline that plain data describes, as a file would.

    Paths start from `folder`, by default the working folder. ConfigError if it is wrong.
    """
    where = Path.cwd() if folder is None else Path(folder).absolute()
    return _build(Tree(dict(data)), "(data)", where, (), ())


def _build(
    tree: Tree,
    name: str,
    folder: Path,
    overrides: Sequence[str],
    extra: Sequence[str],
    first: Sequence[str] = (),
) -> PipelineConfig:
    tree = extend(tree)
    for text in overrides:
        apply_override(tree, text)
    config = validate_section(PipelineConfig, tree.data, tree)
    if first or extra:
        before, after = (
            [step for text in texts for step in parse_pipeline(text, _argument(text))]
            for texts in (first, extra)
        )
        steps = (*before, *config.passes, *after)
        config = config.model_copy(update={"passes": steps})
    config.attach(tree, name, folder)
    return config


def _argument(text: str) -> Source:
    return Source("PASS", text, is_file=False)


def _read(name: str) -> Source:
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"{name} is larger than {MAX_BYTES >> 20} MiB, which no pipeline file is",
            help="is it the model? The order is: -c CONFIG MODEL",
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ConfigError(f"{name} is UTF-16 text", help="save it as UTF-8")
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        before = Source(name, data[: error.start].decode("utf-8-sig"))
        place = before.span(len(before.text)).place
        raise ConfigError(
            f"{name} is not UTF-8 text: the byte 0x{data[error.start]:02X} at {place}",
            help="is it the model? The order is: -c CONFIG MODEL",
        ) from error


def _unreadable(name: str, error: OSError | ValueError) -> ConfigError:
    if isinstance(error, FileNotFoundError):
        shipped = shipped_configs()
        return ConfigError(
            f"there is no pipeline file {name!r}, and none of the package has that name",
            help=did_you_mean(name, shipped, f"shipped are {', '.join(shipped)}"),
        )
    if isinstance(error, IsADirectoryError):
        return ConfigError(f"{name} is a folder", help="name the YAML file in it")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return ConfigError(f"{name} may not be read: {reason}", help="check its permissions")
    return ConfigError(f"{name!r} cannot be read: {reason}")
