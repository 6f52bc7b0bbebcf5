"""ONNX Runtime as an engine."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    UnsupportedModelError,
)
from onnx_passes.runtime import ort_values
from onnx_passes.runtime.base import Data, Feeds, Outputs
from onnx_passes.runtime.interface import Interface
from onnx_passes.runtime.ort_errors import translate
from onnx_passes.runtime.weightless import Weightless, split_weights

if TYPE_CHECKING:
    import onnxruntime

Optimization = Literal["none", "basic", "extended", "all"]
ProviderOptions = tuple[tuple[str, str], ...]

_LEVELS: dict[Optimization, str] = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_FATAL_ONLY = 4  # errors reach us as exceptions; logged too, they would show twice
_DISABLE_PREPACKING = "session.disable_prepacking"


@dataclass(frozen=True)
class OnnxRuntimeEngine:
    """Run a model on ONNX Runtime, with its weights by reference.

    Graph optimizations are off unless asked for: ONNX Runtime would otherwise rewrite both
    models of a comparison, and could hide a fault. A silent fall back to CPU is an error.

    Attributes:
        provider: Execution provider, by ONNX Runtime's own name.
        provider_options: Pairs of an option of the provider and its value.
        optimization: How much ONNX Runtime may rewrite the graph.
        threads: Threads within a node. One keeps reductions in a fixed order; 0 leaves the
            number to ONNX Runtime.
        prepacking: Whether kernels may copy weights into layouts of their own. Off, a session
            is made several times faster, and results differ in the last bits.
        memory_arena: Whether freed memory is kept for later allocations.
    """

    provider: str = "CPUExecutionProvider"
    provider_options: ProviderOptions = ()
    optimization: Optimization = "none"
    threads: int = 1
    prepacking: bool = True
    memory_arena: bool = True

    @property
    def name(self) -> str:
        """The name, with every option that changes the numbers and is not the default."""
        parts = [] if self.provider == "CPUExecutionProvider" else [self.provider]
        parts += [f"{key}={value}" for key, value in self.provider_options]
        parts += [] if self.optimization == "none" else [f"optimization={self.optimization}"]
        parts += [] if self.threads == 1 else [f"threads={self.threads}"]
        parts += [] if self.prepacking else ["prepacking=off"]
        return f"onnxruntime[{', '.join(parts)}]" if parts else "onnxruntime"

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the version and every option."""
        return {
            "engine": "onnxruntime",
            "version": str(_onnxruntime().__version__),
            "provider": self.provider,
            **{f"provider.{key}": value for key, value in self.provider_options},
            "optimization": self.optimization,
            "threads": self.threads,
            "prepacking": self.prepacking,
            "memory_arena": self.memory_arena,
        }

    @contextmanager
    def prepare(self, model: ir.Model) -> Iterator[OrtSession]:
        """Make ``model`` ready; see ``Engine.prepare``."""
        ort = _onnxruntime()
        if self.provider not in (present := ort.get_available_providers()):
            raise EngineUnavailableError(
                f"this build of ONNX Runtime has no {self.provider}",
                help=f"it has {', '.join(present)}",
            )
        try:
            split = split_weights(model)
        except ir.serde.SerdeError as error:
            raise EngineError(f"the model cannot be serialised: {error}") from error
        weights = {name: ort_values.of_tensor(t) for name, t in split.weights.items()}
        session = OrtSession(model, self._session(ort, split, weights), weights)
        try:
            yield session
        finally:
            session.close()

    def _session(
        self,
        ort: ModuleType,
        split: Weightless,
        weights: Mapping[str, onnxruntime.OrtValue],
    ) -> onnxruntime.InferenceSession:
        options = self._options(ort)
        options.add_external_initializers(list(weights), list(weights.values()))
        if self.optimization == "none":
            # External initializers alone are copied once. Sharing them is not safe beside
            # rewrites by ONNX Runtime, which may keep the name of a weight that they change.
            for name, value in weights.items():
                options.add_initializer(name, value)
        provider = (self.provider, dict(self.provider_options))
        try:
            session = ort.InferenceSession(
                split.proto.SerializeToString(), options, providers=[provider]
            )
        except Exception as error:
            raise translate(error) from error
        if (active := session.get_providers()[0]) != self.provider:
            raise EngineUnavailableError(
                f"{self.provider} cannot be used here: ONNX Runtime fell back to {active}",
                help="check its driver and libraries, or ask for CPUExecutionProvider",
            )
        return session

    def _options(self, ort: ModuleType) -> onnxruntime.SessionOptions:
        options = ort.SessionOptions()
        level = _LEVELS[self.optimization]
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL_ONLY
        options.enable_cpu_mem_arena = self.memory_arena
        options.add_session_config_entry(_DISABLE_PREPACKING, str(int(not self.prepacking)))
        return options


class OrtSession:
    """A loaded ONNX Runtime session, and the weights that it points into."""

    def __init__(
        self,
        model: ir.Model,
        session: onnxruntime.InferenceSession,
        weights: Mapping[str, onnxruntime.OrtValue],
    ) -> None:
        self._interface = Interface(model)
        self._types = {output.name: output.type for output in session.get_outputs()}
        self._session: onnxruntime.InferenceSession | None = session
        self._weights: Mapping[str, onnxruntime.OrtValue] = weights

    def close(self) -> None:
        """Free the session, then let go of the weights that it points into."""
        self._session = None
        self._weights = {}

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``."""
        names = self._interface.check(feeds, outputs)
        if self._session is None:
            raise EngineError("the session is closed")
        try:
            if any(self._types[name] in ort_values.EXOTIC_NAMES for name in names):
                wrapped = {name: _wrap(name, data) for name, data in feeds.items()}
                values = self._session.run_with_ort_values(names, wrapped)
                return {n: ort_values.to_array(v) for n, v in zip(names, values, strict=True)}
            results = self._session.run(names, {n: _feed(d) for n, d in feeds.items()})
        except EngineError:
            raise
        except Exception as error:
            raise translate(error) from error
        return {n: ort_values.to_data(v) for n, v in zip(names, results, strict=True)}


def _feed(data: Data) -> object:
    if isinstance(data, np.generic):
        return np.asarray(data)
    if isinstance(data, np.ndarray) and ort_values.element_type(data) in ort_values.EXOTIC:
        return ort_values.of_array(data)
    return data


def _wrap(name: str, data: Data) -> onnxruntime.OrtValue:
    if not isinstance(data, np.ndarray) or data.dtype.kind in "OSU":
        raise UnsupportedModelError(
            "ONNX Runtime cannot return bfloat16 or smaller types from a model whose input "
            f"{name!r} is no numeric tensor",
            help="run this model on the reference engine",
        )
    return ort_values.of_array(data)


def _onnxruntime() -> ModuleType:
    try:
        onnxruntime = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise EngineUnavailableError(
            "onnxruntime is not installed", help="pip install onnxruntime"
        ) from error
    return onnxruntime
