"""A folder that repeats a failure anywhere: two models, one sample, and a script."""

from __future__ import annotations

import filecmp
import json
import os
import secrets
import shutil
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import OnnxPassesError, UsageError
from onnx_passes.model.save import save_model
from onnx_passes.model.walk import weight_bytes
from onnx_passes.ops.bodies import bodies_attached
from onnx_passes.plain import Plain, PlainDict, PlainMapping
from onnx_passes.runtime import processes
from onnx_passes.runtime.engine_base import Data, Feeds
from onnx_passes.runtime.openvino import OpenVinoEngine
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine

LIMIT = 1 << 30
"""Largest size in bytes of the weights of one model of a bundle."""

REPLAY_SECONDS = 60.0
"""Time limit in seconds of one run of the script that is written."""

_SCRIPT = "repro.py"
_HANGS = f"{_SCRIPT} does not end"
_LEVEL_SCRIPT = "repro_level.py"
_EXECUTED_SCRIPT = "repro_executed.py"
_CONTENT = ("before.onnx", "after.onnx", "inputs.npz", "check.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Elements of these types are written a byte each; the script packs them.
_PACKED = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")


Replayable = OnnxRuntimeEngine | OpenVinoEngine | ReferenceEngine
"""The engines that the script asks by their own packages."""


@dataclass(frozen=True)
class Bundle:
    """What a folder is written from.

    ``limits`` are relative and absolute, by output with its path into sequences; outputs
    without one must be equal. ``scaled`` relates them to the largest element of a tensor.
    ``plain`` is ``before`` as the pass gets it; None if it is the same. ``levels`` and
    ``executed`` name a compiler and its options. The one is asked how far it gets, in place of
    comparing numbers; the other runs both models in place of ``engine``.
    """

    before: ir.Model
    after: ir.Model
    inputs: Feeds
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    scaled: bool = False
    signed_zeros: bool = False
    engine: Replayable = field(default_factory=OnnxRuntimeEngine)
    files: Mapping[str, bytes] = field(default_factory=dict)
    kind: str = "equality"
    pipeline: str = ""
    readme: str = ""
    levels: PlainMapping | None = None
    executed: PlainMapping | None = None
    plain: ir.Model | None = None


def write_bundle(bundle: Bundle, folder: Path) -> Path:
    """Write a bundle; the folder appears complete or not at all.

    A folder of the same name that holds another failure stays: the new one gets a number. It
    raises UsageError if the folder cannot be written, or a sample has no form as a file.
    """
    return write_failing([bundle], folder, 0)[0]


def write_failing(
    bundles: Iterable[Bundle], folder: Path, seconds: float = REPLAY_SECONDS
) -> tuple[Path, str]:
    """Write the first bundle that fails when its script is run, or else the last.

    Return the folder, and why its script does not show the failure: empty if it does. The
    README of the folder says so as well. ``seconds`` limits a script; 0 runs none.
    """
    written: Path | None = None
    refused: OnnxPassesError = UsageError("there is nothing to reproduce")
    why = ""
    try:
        with ExitStack() as stack:
            for bundle in bundles:
                scratch = folder.with_name(f".{folder.name}.{secrets.token_hex(6)}.tmp")
                stack.callback(shutil.rmtree, scratch, ignore_errors=True)
                try:
                    _fill(bundle, scratch)
                except OnnxPassesError as error:
                    refused = error
                    continue
                written, why = scratch, _replay(scratch, seconds) if seconds else ""
                if not why or why.startswith(_HANGS):
                    break  # what hangs once is not waited for again
            if written is None:
                raise refused
            if why:
                readme = written / "README.md"
                note = f"**This folder does not fail by itself:** {why}."
                head, _, rest = readme.read_text("utf-8").partition("\n")
                readme.write_text(f"{head}\n\n{note}\n{rest}", "utf-8")
            return _publish(written, folder), why
    except OSError as error:
        raise UsageError(
            f"cannot write the reproducer {folder}: {error.strerror or error}",
            help="give a folder that you may write to as 'reproducers', or false for none",
        ) from error


def _replay(folder: Path, seconds: float) -> str:
    """Run the script of a folder; return why it does not show the failure, or nothing."""
    ended = processes.run([sys.executable, str(folder / _SCRIPT)], seconds)
    if ended.code is None:
        return f"{_HANGS} in {seconds:g} seconds"
    failed = ended.code == 1 and b"Traceback" not in ended.err
    if failed or ended.code < 0:  # an engine that crashes ends the script with it
        return ""
    last = "".join(c if c.isprintable() else "?" for c in ended.last_line)
    return f"{_SCRIPT} ends with exit code {ended.code}: {last}"


def _check(bundle: Bundle) -> None:
    size = max(weight_bytes(bundle.before), weight_bytes(bundle.after))
    if size > LIMIT:
        raise UsageError(
            f"the smallest models that show the fault have {size / 1e9:.1f} GB of weights",
            help="only models below 1 GiB are copied; --dump-after writes the model itself",
        )
    for name, value in bundle.inputs.items():
        _form(name, value)  # raises for what has no form as a file


def _form(name: str, value: Data) -> tuple[Plain, dict[str, Array]]:
    """Return how an input is put together from arrays, and these by name of entry."""
    if isinstance(value, np.ndarray):
        return name, {name: value}
    if value is None:
        return None, {}
    parts = [_form(f"{name}[{index}]", item) for index, item in enumerate(value)]
    if any(
        a.dtype.name in _PACKED or a.dtype.kind == "V" for _, d in parts for a in d.values()
    ):
        raise UsageError(f"the input {name!r} is a sequence of a type that numpy lacks")
    return [form for form, _ in parts], {k: a for _, d in parts for k, a in d.items()}


def _fill(bundle: Bundle, folder: Path) -> None:
    _check(bundle)
    folder.mkdir(parents=True)
    if bundle.plain is not None:
        _save(bundle.plain, folder / "plain.onnx")
    _save(bundle.before, folder / "before.onnx")
    lost = None
    try:
        _save(bundle.after, folder / "after.onnx")
    except OnnxPassesError as error:
        # A pass may leave what no file can hold: that is the fault, then.
        lost = error.message
    forms: PlainDict = {}
    arrays: dict[str, Array] = {}
    for name, value in bundle.inputs.items():
        forms[name], found = _form(name, value)
        arrays |= found
    _write_npz(arrays, folder / "inputs.npz")
    settings = {
        "kind": bundle.kind,
        "lost": lost,
        "inputs": {name: form for name, form in forms.items() if form != name},
        "engine": {"name": bundle.engine.name, **bundle.engine.describe()},
        "ignored": list(bundle.ignored),
        "scaled": bundle.scaled,
        "signed_zeros": bundle.signed_zeros,
        "limits": {name: list(pair) for name, pair in bundle.limits.items()},
    }
    if bundle.levels is not None:
        settings = {"kind": bundle.kind, "lost": lost, "levels": dict(bundle.levels)}
    if bundle.executed is not None:
        settings = {"kind": bundle.kind, "lost": lost, "executed": dict(bundle.executed)}
    (folder / "check.json").write_text(json.dumps(settings, indent=1) + "\n", "utf-8")
    (folder / "pipeline.yaml").write_text(bundle.pipeline, "utf-8")
    (folder / "README.md").write_text(bundle.readme, "utf-8")
    for name, content in bundle.files.items():
        (folder / name).write_bytes(content)
    script = _SCRIPT if bundle.levels is None else _LEVEL_SCRIPT
    script = script if bundle.executed is None else _EXECUTED_SCRIPT
    shutil.copyfile(Path(__file__).with_name(script), folder / _SCRIPT)


def _save(model: ir.Model, path: Path) -> None:
    """Write a model that the script runs without this package."""
    with bodies_attached(model):
        save_model(model, path, external_data="inline")


def _write_npz(arrays: PlainMapping, path: Path) -> None:
    """Write arrays under any names, the same bytes each time; ``np.savez`` does neither."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            with archive.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, _storable(array), allow_pickle=False)


def _storable(array: Array) -> Array:
    if array.dtype.name in _PACKED:
        return np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)
    return array.astype(np.str_) if array.dtype.kind == "O" else np.asarray(array)


def _publish(scratch: Path, folder: Path) -> Path:
    """Rename into place: over the same failure, beside another one."""
    number = 1
    while True:
        target = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if target.is_dir() and _same(scratch, target):
            shutil.rmtree(target, ignore_errors=True)
        with suppress(FileExistsError, NotADirectoryError):
            if not os.path.lexists(target):
                os.rename(scratch, target)
                return target
        number += 1


def _same(one: Path, other: Path) -> bool:
    there = [name for name in _CONTENT if (one / name).exists()]
    equal, _, _ = filecmp.cmpfiles(one, other, there, shallow=False)
    return len(equal) == len(there)
