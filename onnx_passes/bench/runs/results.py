"""Results of models that ran side by side: values, differences, times, and saved files.

Values beyond a limit of memory go to a temporary file. Saved results can be opened and
compared by other limits.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.bench.runs.judges import existing
from onnx_passes.contracts.scores import kind_of
from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.model.digest import Key, digest
from onnx_passes.model.save import Pending, pending
from onnx_passes.model.tensor_bytes import array_buffer
from onnx_passes.plain import Plain, PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import Data, Feeds, Level
from onnx_passes.runtime.isolated_wire import read_data, spell_data
from onnx_passes.runtime.tensorrt.engine import EngineLayer
from onnx_passes.verify.evidence import OutputCheck
from onnx_passes.verify.recording import Spill
from onnx_passes.verify.saved import MARK, json_of, read_samples, write_samples


class Spool:
    """Values by sample and name, in the order they were put in.

    ``limit`` is the bytes kept in memory. More goes to temporary files, which are mapped and
    gone with the values. Strings, sequences and optionals stay in memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held, self._spill = limit, 0, Spill()
        self._samples: list[dict[str, Data]] = []

    def __len__(self) -> int:
        return len(self._samples)

    def names(self, sample: int) -> list[str]:
        """Return the names of a sample's values."""
        return list(self._samples[sample])

    def put(self, sample: int, values: Mapping[str, Data]) -> None:
        """Add values to a sample; UsageError if neither memory nor disk has room."""
        while len(self._samples) <= sample:
            self._samples.append({})
        for name, value in values.items():
            self._samples[sample][name] = self._stored(value)

    def get(self, sample: int, name: str) -> Data:
        """Return a value; KeyError if there is none."""
        return self._samples[sample][name]

    def sample(self, sample: int) -> dict[str, Data]:
        """Return all values of a sample."""
        return dict(self._samples[sample])

    def __iter__(self) -> Iterator[dict[str, Data]]:
        return (self.sample(index) for index in range(len(self)))

    def _stored(self, value: Data) -> Data:
        if not isinstance(value, np.ndarray) or kind_of(value.dtype) == "string":
            return value
        if not value.nbytes or self._held + value.nbytes <= self._limit:
            self._held += value.nbytes
            # An engine's array may keep all the memory of its session alive.
            return value if value.flags.owndata else value.copy()
        try:
            written = self._spill.write(np.frombuffer(array_buffer(value), np.uint8))
        except OSError as error:
            raise UsageError(
                "values are more than the memory limit, and cannot be kept in the temporary "
                f"folder: {error.strerror}",
                where=tempfile.gettempdir(),
                help="raise --memory-limit, ask for fewer --outputs, or set TMPDIR to a "
                "folder with room",
            ) from error
        stored: Array = np.asarray(written).view(value.dtype).reshape(value.shape)
        return stored


@dataclass(frozen=True)
class Latency:
    """Wall times of single runs, in seconds."""

    runs: int
    mean: float
    median: float
    p90: float
    p99: float
    least: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency | None:
        """Summarise; None for no runs."""
        if not seconds:
            return None
        median, p90, p99 = (float(np.percentile(seconds, q)) for q in (50, 90, 99))
        mean = float(np.mean(seconds))
        return cls(len(seconds), mean, median, p90, p99, min(seconds), max(seconds))


@dataclass
class Timing:
    """What one model takes on one engine, on the first sample.

    ``latency`` is of single runs, timed where the session is; None if it does not run.
    ``layers`` have mean times, measured in a session of their own, in the engine's order.
    ``before`` and ``after`` are what GPUs report around the timed runs. ``notes`` say what is
    not known, and why.
    """

    run: str
    latency: Latency | None = None
    warm_up: int = 0
    layers: list[EngineLayer] = field(default_factory=list)
    before: list[dict[str, str]] = field(default_factory=list)
    after: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> PlainDict:
        """Return it as plain data."""
        return asdict(self)


def feeds_digest(feeds: Feeds) -> str:
    """Return a digest of the inputs of a sample: names, types, shapes and elements."""
    return digest(*((name, _data_key(value)) for name, value in sorted(feeds.items()))).hex()


def _data_key(value: Data) -> Key | None:
    if isinstance(value, list):
        return tuple(map(_data_key, value))
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind in "OSUT":
        return (array.dtype.name, array.shape, repr(array.tolist()))
    return (array.dtype.name, array.shape, hashlib.sha256(array_buffer(array)).hexdigest())


SAVED = "saved"
FAILED = "failed"
_TOLD = (
    *("name", "model", "engine", "details", "state", "reason"),
    *("names", "types", "batches", "model_hash", "makers"),
)


@dataclass
class Run:
    """One model on one engine, or results that were saved.

    Attributes:
        name: What it is called.
        model: Name of the model's file.
        engine: Name of the engine.
        details: What the engine says of itself: version, options.
        state: How far it got: "executed", "saved" by an earlier run, "failed" on the way, or
            a level of an engine that executes nothing ("built", "parsed", "rejected",
            "absent"). Only executed and saved runs are compared.
        reason: Why it was not executed.
        names: The values that it gave, in topological order.
        types: Their types, as text, where known: "float32[batch,10]".
        batches: In how many parts its values were computed.
        model_hash: Hash of what the model computes; empty where nobody asked.
        makers: The node of each value, as text: operator and name.
        inputs: Digests of the inputs of saved results.
        values: What it gave, by sample, where that is kept.
    """

    name: str
    model: str
    engine: str
    details: dict[str, str | int | float | bool] = field(default_factory=dict)
    state: str = str(Level.EXECUTED)
    reason: str = ""
    names: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    batches: int = 1
    model_hash: str = ""
    makers: dict[str, str] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    values: Spool | ZipValues | None = None

    @property
    def compared(self) -> bool:
        """Whether it has values to compare."""
        return self.state in (Level.EXECUTED, SAVED)

    def as_dict(self) -> PlainDict:
        """Return all but the values, as plain data."""
        return {name: getattr(self, name) for name in _TOLD}


@dataclass(frozen=True)
class FirstDifference:
    """The first value, in topological order, that differs, and the node that computes it."""

    check: OutputCheck
    sample: int
    node: str | None


@dataclass
class Pair:
    """A run held against the reference.

    Attributes:
        reference: Name of the one that is held to be right.
        candidate: Name of the other.
        judge: By what they were compared.
        outputs: Per value, the worst sample's comparison.
        samples: Number of samples compared.
        first: The first value that differs.
        only_reference: Values that only the reference has, and need not be in both.
        only_candidate: Values that only the candidate has.
        stopped: Whether the rest was left out after the first difference.
    """

    reference: str
    candidate: str
    judge: str
    outputs: list[OutputCheck] = field(default_factory=list)
    samples: int = 0
    first: FirstDifference | None = None
    only_reference: list[str] = field(default_factory=list)
    only_candidate: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def passed(self) -> bool:
        """Whether something was compared, and all of it agreed."""
        return bool(self.outputs) and all(check.passed for check in self.outputs)


@dataclass(frozen=True)
class Invalid:
    """NaN or infinities in a value; the counts are of ``sample``, the first that has any."""

    run: str
    output: str
    sample: int
    nan: int
    inf: int
    first: tuple[int, ...]


@dataclass
class Found:
    """Everything that a comparison found.

    Attributes:
        runs: Every model on every engine, the reference first.
        pairs: The others, each against the reference.
        invalid: NaN and infinities, where they were looked for.
        samples: Number of samples.
        inputs: Digest of each sample's inputs, where results are saved or were.
        notes: What a reader has to know, a sentence each.
        timings: Times of runs and layers, where somebody asked for them.
    """

    runs: list[Run] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    invalid: list[Invalid] = field(default_factory=list)
    samples: int = 0
    inputs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every run was executed, and each pair agrees."""
        return self.exit_code == 0 and bool(self.pairs)

    @property
    def exit_code(self) -> int:
        """1 if values differ or are not finite, 3 if a run is missing, else 0."""
        if self.invalid or not all(pair.passed for pair in self.pairs):
            return 1
        return 0 if all(run.compared for run in self.runs) else 3


KEY = "onnx_passes"
"""Under which it lies in a file."""
SCHEMA = 1


def described(meta: Plain, path: Path) -> list[Run]:
    """Return the runs of a file without values; ReferenceDataError if it is damaged."""
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        version = meta.get("schema") if isinstance(meta, dict) else None
        raise fault(path, f"is of schema {version}, not {SCHEMA}")
    try:
        return [
            _run(told, [str(digest) for digest in meta["inputs"]]) for told in meta["runs"]
        ]
    except (KeyError, TypeError) as error:
        raise fault(path, f"is damaged: {type(error).__name__} {error}") from error


def _run(told: PlainMapping, inputs: list[str]) -> Run:
    run = Run(
        str(told["name"]),
        str(told["model"]),
        str(told["engine"]),
        details=dict(told["details"]),
        names=[str(name) for name in told["names"]],
        types={str(name): str(text) for name, text in told["types"].items()},
        batches=int(told["batches"]),
        model_hash=str(told["model_hash"]),
        makers={str(name): str(node) for name, node in told["makers"].items()},
    )
    return replace(run, state=SAVED, inputs=inputs)


def metadata(runs: list[Run], found: Found) -> PlainDict:
    """Return what a file remembers; ``found`` has the digests of the inputs."""
    return {"schema": SCHEMA, "inputs": found.inputs, "runs": [run.as_dict() for run in runs]}


def fault(path: Path, what: str) -> ReferenceDataError:
    """Return an error about a file of results; ``what`` ends the sentence."""
    return ReferenceDataError(
        f"{path.name!r} {what}", where=str(path), help="save it again with --save-outputs"
    )


def check_form(path: Path, runs: int) -> None:
    """Raise UsageError if the form of a file cannot hold results of so many runs."""
    if path.suffix not in (".json", ".zip", ".npz", ""):
        raise UsageError(
            f"--save-outputs {path}: results are not saved as {path.suffix}",
            help="use .zip (any size), .json (Polygraphy reads it too), .npz or a folder",
        )
    if path.suffix in (".npz", "") and runs != 1:
        raise UsageError(
            f"--save-outputs {path}: {path.suffix or 'a folder'} holds one run, not {runs}",
            help="use .zip or .json",
        )


def save_results(found: Found, path: Path) -> None:
    """Save the values of every run that has any; the file appears whole or not at all.

    Args:
        found: The comparison.
        path: The file; its extension is the form.

    Raises:
        UsageError: The form cannot hold them, or the file cannot be written.
        ReferenceDataError: The form has no such type of value.
    """
    runs = [run for run in found.runs if run.values is not None and run.compared]
    if not runs:
        raise UsageError("there are no results to save: no run was executed")
    check_form(path, len(runs))
    try:
        match path.suffix:
            case ".zip":
                with pending(path) as file:
                    write_zip(runs, found, file)
                    file.publish(path)
            case ".json":
                text = json.dumps(_json(runs, found, path))
                with pending(path) as file:
                    file.write(text.encode())
                    file.publish(path)
            case _:
                samples = _samples(runs[0], path)
                write_samples(path, samples, kind="results", runner=runs[0].name)
    except OSError as error:
        raise UsageError(
            f"the results cannot be written: {error.strerror or error}",
            where=str(path),
            help="nothing was left there; free some room, or name another folder",
        ) from error


def open_results(path: str | os.PathLike[str]) -> list[Run]:
    """Open saved results; values in .zip are read when they are looked at.

    Args:
        path: What ``save_results`` wrote, Polygraphy's ``RunResults``, or saved values.

    Returns:
        The runs, with their values.

    Raises:
        ReferenceDataError: There is nothing, or it cannot be read as that.
    """
    full = existing(path, "saved results")
    if full.suffix == ".zip":
        return open_zip(full)
    samples = [dict(sample) for sample in read_samples(full)]
    meta: Plain = {}
    counts = [(full.stem, len(samples))]
    if full.suffix == ".json":
        root = json.loads(full.read_bytes())
        meta = root.get(KEY, {}) if isinstance(root, dict) else {}
        if isinstance(root, dict):
            counts = [(str(name), len(steps)) for name, steps in root.get("lst", [])]
    runs = described(meta, full) if meta else [_unknown(name) for name, _ in counts]
    start = 0
    if len(runs) != len(counts):
        raise fault(full, f"describes {len(runs)} runs, and holds {len(counts)}")
    for run, (_, count) in zip(runs, counts, strict=True):
        values = Spool(1 << 62)
        for index, sample in enumerate(samples[start : start + count]):
            values.put(index, dict(sample))
        start += count
        run.values = values
        run.names = run.names or (values.names(0) if len(values) else [])
    return runs


def _unknown(name: str) -> Run:
    return Run(name, "unknown", "unknown", state=SAVED)


def _json(runs: list[Run], found: Found, path: Path) -> PlainDict:
    """Return Polygraphy's ``RunResults``, with what else is known of the runs."""
    listed = []
    for run in runs:
        ((name, steps),) = json_of(path, _samples(run, path), "results", run.name)["lst"]
        listed.append([name, [step | {"runtime": None} for step in steps]])
    return {KEY: metadata(runs, found), "lst": listed, MARK: "RunResults"}


def _samples(run: Run, path: Path) -> list[dict[str, Array]]:
    values = run.values
    assert values is not None
    return [
        {name: _tensor(value, name, path) for name, value in values.sample(index).items()}
        for index in range(len(values))
    ]


def _tensor(value: Data, name: str, path: Path) -> Array:
    if isinstance(value, np.ndarray):
        return value
    raise ReferenceDataError(
        f"{path.suffix or 'a folder'} cannot hold {name!r}, which is no tensor",
        where=str(path),
        help="save as .zip, which holds anything",
    )


_INDEX = "index.json"


def write_zip(runs: list[Run], found: Found, file: Pending) -> None:
    """Write runs with their values; ``found`` has the digests of the inputs."""
    members: list[list[PlainDict]] = []
    with zipfile.ZipFile(file.stream, "w") as archive:
        for place, run in enumerate(runs):
            values = run.values
            assert values is not None
            samples: list[PlainDict] = []
            for sample in range(len(values)):
                names = values.names(sample)
                samples.append(
                    {
                        name: _add(archive, f"{place}/{sample}/{i}", values.get(sample, name))
                        for i, name in enumerate(names)
                    }
                )
            members.append(samples)
        index = {KEY: metadata(runs, found), "values": members}
        archive.writestr(_INDEX, json.dumps(index))


def _add(archive: zipfile.ZipFile, member: str, value: Data) -> Plain:
    numbers = itertools.count()

    def write(data: memoryview) -> str:
        name = f"{member}-{next(numbers)}"
        with archive.open(name, "w", force_zip64=True) as stream:
            stream.write(data)
        return name

    return spell_data(value, write)


class ZipValues:
    """Values in a .zip, read when they are looked at."""

    def __init__(self, path: Path, samples: list[PlainDict]) -> None:
        self._path, self._samples = path, samples

    def __len__(self) -> int:
        return len(self._samples)

    def names(self, sample: int) -> list[str]:
        """Return the names of a sample's values."""
        return list(self._samples[sample])

    def get(self, sample: int, name: str) -> Data:
        """Read a value; raise ReferenceDataError if the file is damaged."""
        try:
            with zipfile.ZipFile(self._path) as archive:
                return read_data(self._samples[sample][name], archive.read)
        except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
            raise fault(self._path, f"cannot be read at {name!r}: {error}") from error

    def sample(self, sample: int) -> dict[str, Data]:
        """Read all values of a sample."""
        return {name: self.get(sample, name) for name in self._samples[sample]}


def open_zip(path: Path) -> list[Run]:
    """Open runs, to read values when asked; ReferenceDataError if there are none."""
    try:
        with zipfile.ZipFile(path) as archive:
            index = json.loads(archive.read(_INDEX))
        pairs = list(zip(described(index[KEY], path), index["values"], strict=True))
    except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
        raise fault(path, f"holds no results: {error}") from error
    for run, samples in pairs:
        run.values = ZipValues(path, samples)
    return [run for run, _ in pairs]
