"""What is evaluated, as plain data: workers get it once, and shards by number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter

from onnx_passes.data.dataset import ShardPlan
from onnx_passes.data.file_forms import digest
from onnx_passes.data.measures import Measures
from onnx_passes.errors import ModelError, UsageError
from onnx_passes.model.load import load_model
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.engines import engine_from_config

FORMAT = 4


@dataclass(frozen=True)
class ModelFile:
    """A model in a file.

    ``path`` is absolute; ``files`` are relative to its folder, the model first. ``digest`` is
    the SHA-256 of the file and of its external data.
    """

    name: str
    path: str
    digest: str
    files: tuple[str, ...]

    @classmethod
    def of(cls, path: str | Path, name: str | None = None) -> ModelFile:
        """Look at a file; raise ``ModelError`` if it cannot be read."""
        full = Path(path).absolute()
        loaded = load_model(full)
        every = [full, *(Path(file).absolute() for file in loaded.external)]
        try:
            content = [digest(str(file)) for file in every]
            names = tuple(str(file.relative_to(full.parent)) for file in every)
        except (OSError, ValueError) as error:
            raise ModelError(f"the model cannot be read: {error}", where=str(full)) from error
        whole = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return cls(name or full.name, str(full), whole, names)

    def is_there(self) -> bool:
        """Whether the files are at their path, with this content."""
        try:
            return ModelFile.of(self.path).digest == self.digest
        except ModelError:
            return False


@dataclass(frozen=True)
class EngineChoice:
    """An engine by name and options, as in a pipeline file, so that a worker can make it."""

    name: str
    options: PlainMapping

    def check_threads(self) -> None:
        """Raise ``UsageError`` if the number of threads depends on the worker's machine."""
        if self.name == "onnxruntime" and self.options.get("threads") == 0:
            raise UsageError(
                "threads=0 leaves the number of threads to each worker's machine",
                help="say how many: onnxruntime{threads=1} is the default",
            )

    def make(self) -> Engine:
        """Make the engine; raise ``ConfigError`` if its name or an option is wrong."""
        return engine_from_config(self.name, self.options)


@dataclass(frozen=True)
class RunSpec:
    """A model, by its place in the job, on an engine."""

    model: int
    engine: EngineChoice
    name: str


@dataclass(frozen=True)
class DataJob:
    """Models on engines over a data set. The first run is the reference of the others.

    A worker first imports ``imports``, modules that register metrics or engines.
    """

    plan: ShardPlan
    models: tuple[ModelFile, ...]
    runs: tuple[RunSpec, ...]
    measures: Measures
    imports: tuple[str, ...] = ()

    @property
    def candidates(self) -> Sequence[RunSpec]:
        """The runs that are held against the first; that one itself where it is alone."""
        return self.runs[1:] or self.runs

    def to_text(self) -> str:
        """Return the job as JSON, for a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> DataJob:
        """Read what :meth:`to_text` returns."""
        return TypeAdapter(cls).validate_json(text)

    @cached_property
    def key(self) -> dict[str, str]:
        """What results depend on, hashed: plan, models, engines, measures."""
        parts: PlainDict = {
            "plan": self.plan.digest,
            "models": [model.digest for model in self.models],
            "engines": [[run.model, asdict(run.engine), _version(run)] for run in self.runs],
            "measures": [FORMAT, asdict(self.measures)],
        }
        return {name: _hash(part) for name, part in parts.items()}

    @property
    def digest(self) -> str:
        """Hash of the key."""
        return _hash(self.key)


def _version(run: RunSpec) -> PlainDict:
    return dict(run.engine.make().describe())


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
