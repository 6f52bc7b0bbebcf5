"""Plan a data set: its parts, which samples are used, in which order, in which shards."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from onnx_passes.configs.data_spec import EARLY_SAMPLES, SHARD_BYTES, SHARD_SAMPLES, DataSpec
from onnx_passes.data import files
from onnx_passes.data.input_binding import Binding, bind, check_column
from onnx_passes.data.plain_interface import DataInterface
from onnx_passes.data.sources.discover import discover
from onnx_passes.data.sources.function import SequencePart, as_sample
from onnx_passes.data.sources.part import FORMS, Columns, PartSpec, SourcePart
from onnx_passes.errors import OnnxPassesError, ReferenceDataError
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.verify.runs.user_functions import named_function


class IncompleteDataError(OnnxPassesError):
    """A part of the data set could not be evaluated."""

    code: ClassVar[str] = "incomplete-data"
    exit_code: ClassVar[int] = 5


@dataclass(frozen=True)
class Broken:
    """A part that cannot be read, so that the number of its samples is unknown.

    Attributes:
        name: What a report calls it.
        reason: Why, in one clause.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class ShardPlan:
    """A data set whose samples are counted and divided into shards.

    It depends on the content of the data alone: not on folders, times or workers.

    Attributes:
        spec: What the user said.
        parts: The parts in order.
        broken: The parts that cannot be read.
        interface: The inputs of the model.
        binding: How columns are fed to it.
        shard: Samples in each shard but the last.
    """

    spec: DataSpec
    parts: tuple[PartSpec, ...]
    broken: tuple[Broken, ...]
    interface: DataInterface
    binding: Binding
    shard: int

    @cached_property
    def total(self) -> int:
        """Number of samples in the data set."""
        return sum(part.count for part in self.parts)

    @cached_property
    def used(self) -> int:
        """Number of samples that are evaluated."""
        return self.spec.selected(self.total)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return math.ceil(self.used / self.shard)

    def range(self, shard: int) -> tuple[int, int]:
        """Return the first position of a shard in the order, and the one after its last."""
        return shard * self.shard, min((shard + 1) * self.shard, self.used)

    @cached_property
    def digest(self) -> str:
        """Hash of all that decides which samples are in which shard, and how they are fed."""
        spec = self.spec
        key = {
            "parts": [[part.form, part.count, part.digest] for part in self.parts],
            "order": [spec.shuffle, spec.limit, spec.fraction, self.shard],
            "binding": self.binding.to_json(),
            "prepare": spec.prepare,
            "allow_nan": spec.allow_nan,
        }
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]

    def to_json(self) -> PlainDict:
        """Return the plan as JSON has it."""
        return {
            "spec": self.spec.to_json(),
            "parts": [part.to_json() for part in self.parts],
            "broken": [asdict(part) for part in self.broken],
            "interface": self.interface.to_json(),
            "binding": self.binding.to_json(),
            "shard": self.shard,
        }

    @classmethod
    def from_json(cls, data: PlainMapping) -> ShardPlan:
        """Read what :meth:`to_json` returns."""
        return cls(
            DataSpec.from_json(data["spec"]),
            tuple(PartSpec(**part) for part in data["parts"]),
            tuple(Broken(**part) for part in data["broken"]),
            DataInterface.from_json(data["interface"]),
            Binding(**data["binding"]),
            data["shard"],
        )


def make_plan(spec: DataSpec, interface: DataInterface) -> ShardPlan:
    """Find the data, count and hash it, and decide how it is fed.

    Args:
        spec: What the user says.
        interface: The inputs of the model.

    Raises:
        ReferenceDataError: There is no data, or its first sample does not fit the model.
        UsageError: A library that the data needs is not installed.
    """
    parts: list[PartSpec] = []
    broken: list[Broken] = []
    taken: Columns | None = None
    for found in discover(spec, interface):
        try:
            part = FORMS[found.form](found)
            counted = _count(found, part)
            if taken is None and counted.count:
                taken = part.take(np.array([0]))
        except ReferenceDataError as error:
            broken.append(Broken(found.name, error.message))
        except OSError as error:
            broken.append(Broken(found.name, f"cannot be read: {error.strerror or error}"))
        except MemoryError:
            broken.append(Broken(found.name, "cannot be read: it does not fit into memory"))
        else:
            parts.append(counted)
    if taken is None:
        raise ReferenceDataError(
            f"no part of the data set can be read: {broken[0].reason}"
            if broken
            else "the data set has no samples",
            help="check what --data names",
        )
    first = _prepare(taken, spec)
    binding = bind(spec, interface, first)
    for name, column in binding.columns.items():
        # What does not fit from the first sample on is an error of usage, not of a shard.
        sample = [first[column][0]]
        check_column(
            name, sample, interface, binding, lambda _: "the first sample", allow_nan=True
        )
    return ShardPlan(
        spec, tuple(parts), tuple(broken), interface, binding, _shard(spec, parts, binding)
    )


def _count(spec: PartSpec, part: SourcePart) -> PartSpec:
    if isinstance(part, SequencePart):
        return replace(spec, count=part.count, digest=part.digest())
    paths = {column: files.local(path) for column, path in spec.files.items()}
    digests = {column: files.digest(path) for column, path in paths.items()}
    content = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
    size = sum(_size(path) for path in paths.values())
    absolute = {c: p if files.is_url(p) else os.path.abspath(p) for c, p in spec.files.items()}
    return replace(spec, files=absolute, count=part.count, size=size, digest=content)


def _size(path: str) -> int:
    root = Path(path)
    if root.is_dir():
        return sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
    return root.stat().st_size


def _prepare(columns: Columns, spec: DataSpec) -> Columns:
    if spec.prepare is None:
        return columns
    function = named_function(spec.prepare, "prepare")
    sample = {name: values[0] for name, values in columns.items()}
    try:
        done = as_sample(function(sample), f"prepare {spec.prepare}")
    except ReferenceDataError:
        raise
    except Exception as error:  # whatever the function raises
        raise ReferenceDataError(
            f"prepare {spec.prepare} raised {type(error).__name__}: {error}",
            help="it is called with a mapping of columns to values, and returns one",
        ) from error
    return {name: [value] for name, value in done.items()}


def _shard(spec: DataSpec, parts: list[PartSpec], binding: Binding) -> int:
    """Return the samples of a shard: as the user says, or by the bytes of a sample."""
    wanted = spec.shard
    if wanted is None:
        total = sum(part.count for part in parts)
        mean = max(1, sum(part.size for part in parts) // max(1, total))
        most = EARLY_SAMPLES if spec.early else SHARD_SAMPLES
        wanted = max(1, min(most, SHARD_BYTES // mean))
    return math.ceil(wanted / binding.batch) * binding.batch
