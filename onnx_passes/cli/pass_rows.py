"""Names and summaries of all passes, from the index of the library where it is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

from onnx_passes.library_index import ENTRY_POINTS, LibraryIndex, library_index


def library_alone() -> LibraryIndex | None:
    """Return the index of the library; None if there is none, or other packages add passes."""
    return None if entry_points(group=ENTRY_POINTS) else library_index()


def pass_rows(config: str | None = None) -> Sequence[Mapping[str, str]]:
    """Return name, group, contract and summary of every pass, by group.

    Args:
        config: A pipeline file whose imports count as well; None for the library.
    """
    index = library_alone() if config is None else None
    if index is not None:
        return index.rows
    from onnx_passes.cli.pass_descriptions import describe_passes, import_from

    return describe_passes(import_from(config))


def preset_rows() -> list[Mapping[str, str]]:
    """Return name and summary of every shipped pipeline, in the form of rows of passes."""
    from onnx_passes.configs.shipped import shipped_configs, shipped_summary

    return [
        {"name": n, "group": "presets", "contract": f"-c {n}", "summary": shipped_summary(n)}
        for n in shipped_configs()
    ]


def group_names() -> list[str]:
    """Return the names of all groups of passes."""
    index = library_alone()
    if index is not None:
        return [n for n, found in index.groups.items() if n not in index.places or found[1:]]
    from onnx_passes.passes.registry import groups

    return list(groups())
