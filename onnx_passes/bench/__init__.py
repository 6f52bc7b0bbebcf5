"""The debugging bench in Python: each of its commands is a function of the same name.

    from onnx_passes import bench

    model = bench.load("model.onnx")
    for finding in bench.lint(model):
        print(finding.message)
    found = bench.compare([bench.Runner("a.onnx"), bench.Runner("b.onnx")], samples)

Functions take and return models in memory (:func:`load` and :func:`save` go between these and
files); the commands read and write files. What a command does to saved data is done by
``data_merge``, ``data_concat`` and ``data_convert``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from onnx_passes.bench.compiler_support import capability
from onnx_passes.bench.inspection import inspect_model as inspect
from onnx_passes.bench.inspection import statistics
from onnx_passes.bench.reducing import reduce
from onnx_passes.bench.runs import (
    Loader,
    Runner,
    Settings,
    compare,
    open_results,
    save_results,
)
from onnx_passes.model.diff import diff
from onnx_passes.model.extract import Cut
from onnx_passes.surgery.graph_edits import (
    extract,
    insert,
    load,
    rename,
    save,
)
from onnx_passes.surgery.sanitizing import sanitize
from onnx_passes.surgery.weights import restore_weights, strip_weights
from onnx_passes.verify.saved import Kind, Sample, merge_samples, read_samples, write_samples
from onnx_passes.verify.validity import lint

__all__ = [
    "Cut",
    "Loader",
    "Runner",
    "Settings",
    "capability",
    "compare",
    "data_concat",
    "data_convert",
    "data_merge",
    "diff",
    "extract",
    "insert",
    "inspect",
    "lint",
    "load",
    "open_results",
    "reduce",
    "rename",
    "restore_weights",
    "sanitize",
    "save",
    "save_results",
    "statistics",
    "strip_weights",
]

File = str | os.PathLike[str]


def data_merge(files: Sequence[File]) -> list[Sample]:
    """Join the values of saved files, sample by sample.

    Raises:
        ReferenceDataError: A file cannot be read, or two hold different values of one name.
    """
    return merge_samples([read_samples(file) for file in files])


def data_concat(files: Sequence[File]) -> list[Sample]:
    """Put the samples of saved files one after the other.

    Raises:
        ReferenceDataError: A file cannot be read.
    """
    return [sample for file in files for sample in read_samples(file)]


def data_convert(file: File, output: File, *, kind: Kind = "feeds") -> None:
    """Write saved values in the form that the output's extension says.

    Args:
        file: What is read: .npz, .npy, .json, .pb, or a folder of ONNX test data.
        output: Where they go; a path without an extension is a folder.
        kind: What .json and a folder say they are: feeds, or results of a runner.

    Raises:
        ReferenceDataError: The file cannot be read, or the form cannot hold the values.
    """
    write_samples(output, read_samples(file), kind=kind)
