"""Find the parts of a data set: what a path, pattern, URL or function names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data import files
from onnx_passes.data.plain_interface import DataInterface
from onnx_passes.data.sources import function, numpy_files, saved_feeds, tables
from onnx_passes.data.sources.archive import TarPart
from onnx_passes.data.sources.part import PartSpec
from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.plain import PlainMapping
from onnx_passes.runtime.interface import did_you_mean

FORM_OF = {
    ".npy": "npy",
    ".npz": "npz",
    ".tar": "tar",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FORMS = (numpy_files.ArrayPart, saved_feeds.JsonPart, tables.ParquetPart, TarPart)
"""Imported, so that their forms are known."""


def discover(spec: DataSpec, interface: DataInterface) -> Iterator[PartSpec]:
    """Yield the parts of a data set in order. Their counts are not known yet.

    Args:
        spec: What the user says.
        interface: The model's inputs, which say whether an archive is one sample.

    Raises:
        ReferenceDataError: There is no data, of no known form, or of several forms.
    """
    if spec.named:
        _refuse_split(spec)
        yield from _find_named(spec)
        return
    columns: list[str] = []
    if not any((Path(spec.base) / s / "dataset_dict.json").is_file() for s in spec.sources):
        _refuse_split(spec)
    for source in spec.sources:
        if _is_function(source, spec.base):
            yield from _function(source)
            continue
        paths = files.expand(source, spec.base)
        folders = [path for path in paths if not files.is_url(path) and os.path.isdir(path)]
        for folder in folders:
            yield from _folder(Path(folder), spec, interface)
        rest = [path for path in paths if path not in folders]
        if rest and all(Path(path).suffix == ".npy" for path in rest):
            columns += rest  # columns of one table may be named one by one
        else:
            yield from _files(rest, source, spec, interface)
    if columns:
        yield from _columns(columns)


def _refuse_split(spec: DataSpec) -> None:
    if spec.split is not None:
        raise UsageError(
            f"the data has no splits, and split {spec.split!r} is asked for",
            help="splits are those of the library 'datasets', saved by save_to_disk",
        )


def _is_function(source: str, base: str) -> bool:
    there = os.path.exists(Path(base) / Path(source).expanduser())
    return bool(_FUNCTION.fullmatch(source)) and not there


def _function(source: str) -> Iterator[PartSpec]:
    given = function.call_once(source)
    if function.is_sequence(given):
        yield PartSpec("function", {"": source}, source)
        return
    try:
        stream = iter(given)
    except TypeError as error:
        raise ReferenceDataError(
            f"--data {source} gives {type(given).__name__}, which is not an iterable",
            help="return a sequence of mappings, or yield them",
        ) from error
    for number, path in enumerate(function.spool(stream, source)):
        yield PartSpec("npz", {"": str(path)}, f"{source}/{number}")


def _folder(folder: Path, spec: DataSpec, interface: DataInterface) -> Iterator[PartSpec]:
    if (folder / "dataset_dict.json").is_file():
        folder = _split(folder, spec.split)
    if (folder / "state.json").is_file():
        yield from _hugging_face(folder)
        return
    sets = sorted(
        (p for p in folder.glob("test_data_set_*") if p.is_dir()),
        key=lambda p: _number(p.name),
    )
    if not sets and any(folder.glob("input_*.pb")):
        sets = [folder]
    if sets:
        options = {"inputs": interface.names, "outputs": interface.outputs}
        for one in sets:
            yield PartSpec("test-data", {"": str(one)}, one.name, options=options)
        return
    found = sorted(
        str(p) for p in folder.rglob("*") if p.suffix in FORM_OF and not p.name.startswith(".")
    )
    if not found:
        raise ReferenceDataError(
            f"the folder {folder} holds no data",
            help=f"known are {', '.join(FORM_OF)}, folders of ONNX test data, and data sets "
            "saved by the library 'datasets'",
        )
    yield from _files(found, str(folder), spec, interface)


def _files(
    paths: list[str], source: str, spec: DataSpec, interface: DataInterface
) -> Iterator[PartSpec]:
    forms = {path: FORM_OF.get(Path(path).suffix, "") for path in paths}
    if strange := [path for path, form in forms.items() if not form]:
        raise ReferenceDataError(
            f"data {Path(strange[0]).name!r} is of no known form",
            where=strange[0],
            help=f"known are {', '.join(FORM_OF)}",
        )
    if len(set(forms.values())) > 1:
        raise ReferenceDataError(
            f"{source} holds files of several forms: {', '.join(sorted(set(forms.values())))}",
            help="name those that are meant with a pattern, such as data/*.npz",
        )
    if set(forms.values()) == {"npy"}:
        yield from _columns(paths)
        return
    common = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    for path in paths:
        name = os.path.relpath(path, common) if not files.is_url(path) else path
        part = PartSpec(forms[path], {"": path}, name)
        if part.form == "npz" and (whole := _is_whole(part, spec, interface)):
            part = replace(part, options={"whole": whole})
        yield part


def _is_whole(part: PartSpec, spec: DataSpec, interface: DataInterface) -> bool:
    """Whether a .npz file is one sample: its arrays lack the axis of samples."""
    try:
        shapes = numpy_files.npz_shapes(files.local(part.path), part.name)
    except ReferenceDataError:
        return False  # it is reported as broken when it is opened
    for name, rank in interface.ranks.items():
        shape = shapes.get(spec.columns.get(name, name))
        if shape is not None and rank is not None:
            return len(shape) < rank
    return len({shape[:1] for shape in shapes.values()}) > 1


def _columns(paths: list[str]) -> Iterator[PartSpec]:
    """Group .npy files: ``images-0.npy`` and ``labels-0.npy`` are columns of one part."""
    parts: dict[tuple[str, str], dict[str, str]] = {}
    for path in paths:
        match = re.fullmatch(r"(.*?)[-_.]?(\d*)", Path(path).stem)
        assert match is not None
        column, number = match[1] or "data", match[2]
        parts.setdefault((os.path.dirname(path), number), {})[column] = path
    for (_, number), by_column in parts.items():
        name = Path(next(iter(by_column.values()))).name
        yield PartSpec("npy", by_column, name, options={"number": number})


def _find_named(spec: DataSpec) -> Iterator[PartSpec]:
    found = {column: files.expand(text, spec.base) for column, text in spec.named.items()}
    counts = {column: len(paths) for column, paths in found.items()}
    if len(set(counts.values())) > 1:
        raise ReferenceDataError(
            "columns have different numbers of files",
            help=", ".join(f"{column}: {count}" for column, count in counts.items()),
        )
    for paths in zip(*found.values(), strict=True):
        if other := [path for path in paths if Path(path).suffix != ".npy"]:
            raise ReferenceDataError(
                f"{Path(other[0]).name!r} is no .npy file",
                help="a mapping of columns names .npy files; other forms hold their columns",
            )
        by_column = dict(zip(found, paths, strict=True))
        yield PartSpec("npy", by_column, Path(paths[0]).name)


def _hugging_face(folder: Path) -> Iterator[PartSpec]:
    state = _json(folder / "state.json")
    for item in state.get("_data_files", []):
        path = folder / str(item.get("filename"))
        yield PartSpec("arrow", {"": str(path)}, f"{folder.name}/{path.name}")
    if state.get("_indices_files"):
        raise ReferenceDataError(
            f"the data set {folder} selects rows by an index, which is not read",
            help="call flatten_indices() before save_to_disk()",
        )


def _split(folder: Path, wanted: str | None) -> Path:
    splits = [str(name) for name in _json(folder / "dataset_dict.json").get("splits", [])]
    if wanted is None and len(splits) == 1:
        wanted = splits[0]
    if wanted not in splits:
        raise ReferenceDataError(
            f"the data set {folder} has the splits {', '.join(splits)}"
            + ("" if wanted is None else f", and none named {wanted!r}"),
            help="name one: split=NAME" if wanted is None else did_you_mean(wanted, splits),
        )
    return folder / wanted


def _json(path: Path) -> PlainMapping:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ReferenceDataError(
            f"{path} cannot be read: {error}", help="save it again"
        ) from error
    return found if isinstance(found, dict) else {}


def _number(name: str) -> int:
    match = re.search(r"(\d+)$", name)
    return int(match[1]) if match else -1
