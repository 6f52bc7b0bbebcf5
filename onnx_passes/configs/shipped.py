"""The pipelines that ship with the package, and files that build on them."""

from __future__ import annotations

import re
from importlib import resources
from itertools import takewhile
from pathlib import Path

from onnx_passes.configs.problems import described, located
from onnx_passes.configs.read_steps import read_steps
from onnx_passes.configs.source import Source
from onnx_passes.configs.steps import Step
from onnx_passes.configs.yaml_tree import Path as Place
from onnx_passes.configs.yaml_tree import Tree, parse_yaml
from onnx_passes.errors import ConfigError
from onnx_passes.passes.naming import did_you_mean
from onnx_passes.plain import Plain

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

    Args:
        tree: The file, as it was written.

    Raises:
        ConfigError: No pipeline of the package has that name.
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


def _behind(place: Place, count: int) -> Place:
    """Return where a part of a step stands behind the steps of another file."""
    if place[:1] != ("passes",) or len(place) == 1:
        return place
    return ("passes", int(place[1]) + count, *place[2:])
