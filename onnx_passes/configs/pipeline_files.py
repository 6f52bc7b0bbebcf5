"""Pipeline files from paths and from the package."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from onnx_passes.configs.overrides import apply_override
from onnx_passes.configs.pipeline_text import parse_pipeline
from onnx_passes.configs.problems import checked, described, located
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.shipped import extend, shipped_configs, shipped_source
from onnx_passes.configs.source import Source
from onnx_passes.configs.yaml_tree import Tree, parse_yaml
from onnx_passes.errors import ConfigError
from onnx_passes.passes.naming import did_you_mean
from onnx_passes.plain import PlainMapping

MAX_BYTES = 1 << 20


def load_config(
    path_or_name: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    extra_passes: Sequence[str] = (),
    first_passes: Sequence[str] = (),
) -> PipelineConfig:
    """Read a pipeline file.

    Args:
        path_or_name: Path of a YAML file, or the name of a pipeline that ships with the
            package. A path that exists wins.
        overrides: ``KEY=VALUE`` texts that change single keys, in order.
        extra_passes: Texts of steps that run after the file's.
        first_passes: Texts of steps that run before the file's.

    Raises:
        ConfigError: The file cannot be read or is wrong; the error says where.
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
    """Return what runs if there is no pipeline file: only ``extra_passes``.

    Args:
        overrides: Texts ``KEY=VALUE`` as on the command line.
        extra_passes: Passes to run, as on the command line.

    Raises:
        ConfigError: An override or a pass is wrong.
    """
    return _build(Tree({}), "(defaults)", Path.cwd(), overrides, extra_passes)


def config_from_data(
    data: PlainMapping, folder: str | os.PathLike[str] | None = None
) -> PipelineConfig:
    """Return the pipeline that plain data describes, as a file would.

    Args:
        data: What the YAML would hold.
        folder: Where modules and reference data are found from; the working folder if None.

    Raises:
        ConfigError: The data is wrong.
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
    config = checked(PipelineConfig, tree.data, tree)
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
