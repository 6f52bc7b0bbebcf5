"""ONNX Runtime as an engine, with its execution providers.

For models whose weights take much memory, an engine is chosen that copies no weights.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from onnx_passes.errors import EngineUnavailableError
from onnx_passes.model.ort_sessions import (
    CPU,
    FATAL_ONLY,
    Optimization,
    map_files,
    open_session,
    session_options,
)
from onnx_passes.model.walk import weight_bytes
from onnx_passes.runtime import engine_models, ort_session
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.engine_models import LARGE as LARGE
from onnx_passes.runtime.engine_models import (
    assign_seeds,
    files_folder,
    insert_barriers,
    split_for_engine,
)
from onnx_passes.runtime.ort_session import OrtSession, translate

if TYPE_CHECKING:
    import onnxruntime


EXACT_PROVIDER_OPTIONS: dict[str, dict[str, str]] = {
    "CUDAExecutionProvider": {"use_tf32": "0"},
    "OpenVINOExecutionProvider": {"device_type": "CPU", "precision": "FP32"},
}
"""Options that a provider gets unless others are given: it is to compute what a model says."""

_PLUGINS = {"NvTensorRTRTXExecutionProvider": "onnxruntime_ep_nv_tensorrt_rtx"}


def _instead(package: str) -> str:
    """Return how to install a build of ONNX Runtime in place of the plain one."""
    return f"pip uninstall onnxruntime, then pip install {package}"


_GPU_BUILD = _instead("onnxruntime-gpu")
_HELP = {
    "CUDAExecutionProvider": _GPU_BUILD,
    "TensorrtExecutionProvider": f"{_GPU_BUILD}, and the libraries of TensorRT 10",
    "NvTensorRTRTXExecutionProvider": "pip install onnxruntime-ep-nv-tensorrt-rtx",
    "OpenVINOExecutionProvider": _instead("onnxruntime-openvino"),
    "DmlExecutionProvider": f"{_instead('onnxruntime-directml')}, on Windows",
    "QNNExecutionProvider": f"{_instead('onnxruntime-qnn')}, on Windows or Linux for ARM",
    "CoreMLExecutionProvider": "the build of onnxruntime for macOS has it",
    "XnnpackExecutionProvider": "build ONNX Runtime with --use_xnnpack: packages lack it",
}
_BROKEN = {
    "CUDAExecutionProvider": "the driver, CUDA and cuDNN: onnxruntime-gpu[cuda,cudnn]",
    "TensorrtExecutionProvider": "the driver, and libnvinfer.so.10 where libraries are found",
    "NvTensorRTRTXExecutionProvider": "the driver: nvidia-smi",
}


def load_onnxruntime() -> ModuleType:
    """Import ONNX Runtime."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise EngineUnavailableError(
            "onnxruntime is not installed", help="pip install onnxruntime"
        ) from error


def with_provider(provider: str) -> ModuleType:
    """Return ONNX Runtime, with a provider that this build or a package beside it has.

    The help of an EngineUnavailableError says what to install or to check.
    """
    ort = load_onnxruntime()
    present = ort.get_available_providers()
    if provider != CPU:  # kernels of others warn in a log that no session owns
        ort.set_default_logger_severity(FATAL_ONLY)
    if provider in present:
        return ort
    module = _PLUGINS.get(provider)
    if module is None or importlib.util.find_spec(module) is None:
        raise EngineUnavailableError(
            f"this build of ONNX Runtime has no {provider}",
            help=_HELP.get(provider, f"it has {', '.join(present)}"),
        )
    if not _devices(ort, provider):
        _register(ort, provider, module)
    return ort


def broken_help(provider: str) -> str:
    """Return what to check where a provider is there and cannot be used."""
    return f"check {_BROKEN.get(provider, 'its driver and libraries')}; or ask for {CPU}"


def runs_on_cpu(engine: Engine) -> bool:
    """Whether an engine is ONNX Runtime on the CPU, which repeats itself bit for bit."""
    return isinstance(engine, OnnxRuntimeEngine) and engine.provider == CPU


def nodes_by_provider(session: onnxruntime.InferenceSession) -> dict[str, int]:
    """Return how many nodes each provider got, the most first.

    The session must have ``record_ep_graph_assignment_info``. Fused nodes count as what they
    were. Empty if this ONNX Runtime does not report it.
    """
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return {}
    found: Counter[str] = Counter()
    for part in session.get_provider_graph_assignment_info():
        found[part.ep_name] += len(part.get_nodes())
    return dict(found.most_common())


def _register(ort: ModuleType, provider: str, module: str) -> None:
    try:
        package = importlib.import_module(module)
        ort.register_execution_provider_library(provider, package.get_library_path())
    except Exception as error:  # ONNX Runtime's exceptions share no base
        said = str(error).rpartition(" : ")[2]
        raise EngineUnavailableError(
            f"{provider} cannot be loaded: {said}", help=broken_help(provider)
        ) from error
    if not _devices(ort, provider):
        raise EngineUnavailableError(
            f"{provider} finds no GPU that it can use", help=broken_help(provider)
        )


def _devices(ort: ModuleType, provider: str) -> list[object]:
    return [device for device in ort.get_ep_devices() if device.ep_name == provider]


ProviderOptions = tuple[tuple[str, str], ...]

_KEEP_QDQ = "session.disable_quant_qdq"
_DISABLECPU_FALLBACK = "session.disable_cpu_ep_fallback"
_SHARED_ARENA = "session.use_env_allocators"
_RECORD_PLACEMENT = "session.record_ep_graph_assignment_info"
_LEFT_OUT = "optimization.disable_specified_optimizers"
MANY_CONSTANTS = 2000
"""Constants beyond which a session does without what takes time by the square of their number.

With 24,000 constants and optimizations, a session takes 66 s with ConstantSharing, which looks
for equal ones, and 6 s without. As written and without prepacking, it takes 15 s with plans of
memory that runs reuse, and 3 s without. Neither changes a value.
"""


@dataclass(frozen=True)
class OnnxRuntimeEngine:
    """Run a model on ONNX Runtime, with its weights by reference.

    Graph optimizations are off unless asked for: ONNX Runtime would otherwise rewrite both
    models of a comparison, and could hide a fault. Without them each value below float32 is
    rounded as the model says (see :mod:`onnx_passes.runtime.engine_models`). A provider
    that runs no node of the model is an error, as is one that cannot be loaded: neither gives
    way to the CPU unseen.

    Attributes:
        provider: Execution provider, by ONNX Runtime's own name.
        provider_options: Pairs of an option of the provider and its value.
        optimization: How much ONNX Runtime may rewrite the graph.
        threads: Threads within a node. One keeps reductions in a fixed order; 0 leaves the
            number to ONNX Runtime.
        prepacking: Whether kernels, and optimizations of more than 100 MiB in files, may make
            copies of weights. Off, a session is faster to make; last bits of results differ.
        memory_arena: Whether freed memory is kept for later allocations, by any session.
            Sessions that copy no weights keep none.
        cpu_fallback: Whether the CPU may run those nodes that the provider has no kernel for.
        seed: Seed of the random operators that have none of their own, together with the
            name of what each computes.
        custom_ops: Libraries of operators of other domains, registered in this order.
        profile: Whether sessions report the time of each node, which slows runs down.
        fuse_qdq: Whether optimizations may remove DequantizeLinear and QuantizeLinear around a
            node, for a kernel over integers. Off, models run whose integers no kernel takes.
    """

    provider: str = CPU
    provider_options: ProviderOptions = ()
    optimization: Optimization = "none"
    threads: int = 1
    prepacking: bool = True
    memory_arena: bool = True
    cpu_fallback: bool = True
    seed: int = 0
    custom_ops: tuple[str, ...] = ()
    profile: bool = False
    fuse_qdq: bool = True

    @property
    def node_by_node(self) -> bool:
        """Whether each node runs as written, so that keeping its value changes no other."""
        return self.optimization == "none" and self.provider == CPU

    @property
    def concurrent(self) -> bool:
        """Whether runs beside each other gain: each is one thread on the CPU."""
        return self.threads == 1 and self.provider == CPU

    @property
    def name(self) -> str:
        """The name, with every option that changes the numbers and is not the default."""
        parts = [] if self.provider == CPU else [self.provider]
        parts += [f"{key}={value}" for key, value in self.provider_options]
        parts += [] if self.optimization == "none" else [f"optimization={self.optimization}"]
        parts += [] if self.threads == 1 else [f"threads={self.threads}"]
        parts += [] if self.prepacking else ["prepacking=off"]
        parts += [] if self.cpu_fallback else ["cpu_fallback=off"]
        parts += [] if self.fuse_qdq else ["fuse_qdq=off"]
        parts += [] if self.seed == 0 else [f"seed={self.seed}"]
        return f"onnxruntime[{', '.join(parts)}]" if parts else "onnxruntime"

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the version and every option."""
        return {
            "engine": "onnxruntime",
            "version": str(with_provider(self.provider).__version__),
            "provider": self.provider,
            **{f"provider.{key}": value for key, value in self._settings.items()},
            "optimization": self.optimization,
            "threads": self.threads,
            "prepacking": self.prepacking,
            "memory_arena": self.memory_arena,
            "cpu_fallback": self.cpu_fallback,
            "seed": self.seed,
            **({} if self.fuse_qdq else {"fuse_qdq": False}),
            **({"custom_ops": ", ".join(self.custom_ops)} if self.custom_ops else {}),
        }

    @property
    def _settings(self) -> dict[str, str]:
        """The provider's options, those that make it exact included."""
        return EXACT_PROVIDER_OPTIONS.get(self.provider, {}) | dict(self.provider_options)

    @contextmanager
    def prepare(self, model: ir.Model) -> Iterator[OrtSession]:
        """Make ``model`` ready; see ``Engine.prepare``."""
        ort = with_provider(self.provider)
        model = assign_seeds(model, self.seed)
        if self.node_by_node:
            model = insert_barriers(model)
        # ONNX Runtime copies weights handed to it; those that it finds in a file it maps.
        folder = engine_models.files_folder(model) if self.provider == CPU else None
        proto, found = split_for_engine(
            model,
            lambda t: t if engine_models.in_folder(t, folder) else ort_session.of_tensor(t),
        )
        weights = engine_models.locate_files(proto, found)
        if self._is_lean(folder):
            engine_models.prevent_integer_packing(proto)
        start = partial(self._session, ort, proto, weights, folder)
        started = start()
        placed = {} if self.provider == CPU else nodes_by_provider(started)
        session = OrtSession(model, started, weights, placed, start)
        with closing(session):
            yield session

    def _session(
        self,
        ort: ModuleType,
        proto: onnx.ModelProto,
        weights: Mapping[str, onnxruntime.OrtValue],
        folder: engine_models.WeightFolder | None = None,
    ) -> onnxruntime.InferenceSession:
        # Sharing is not safe beside rewrites by ONNX Runtime, which may keep the name of a
        # weight that they change, nor possible across devices.
        shared = self.optimization == "none" and self.provider == CPU
        if shared and folder is None and weights:
            # What ONNX Runtime reads of a weight by itself fails, as that file is empty.
            with suppress(Exception):
                return self._started(
                    ort, proto, self._sharing(ort, weights, engine_models.EMPTY)
                )
        options = self._sharing(ort, weights if shared else {}, folder)
        options.add_external_initializers(list(weights), list(weights.values()))
        return self._started(ort, proto, options)

    def _sharing(
        self,
        ort: ModuleType,
        weights: Mapping[str, onnxruntime.OrtValue],
        folder: engine_models.WeightFolder | None,
    ) -> onnxruntime.SessionOptions:
        """Return options under which a session takes weights by reference, or from files."""
        lean = self._is_lean(folder)
        # A small value takes a piece of what an arena kept for a widened weight, and for the
        # next weight the arena grows.
        options = self._options(ort, arena=self.memory_arena and not lean)
        if folder is not None:
            map_files(options, folder.path, copies=not lean)
        for name, value in weights.items():
            options.add_initializer(name, value)
        return options

    def _started(
        self, ort: ModuleType, proto: onnx.ModelProto, options: onnxruntime.SessionOptions
    ) -> onnxruntime.InferenceSession:
        ort.set_seed(self.seed)
        if _constants(proto.graph) > MANY_CONSTANTS:
            _share_no_constants(options)
            options.enable_mem_pattern = False
        try:
            if self.provider in _PLUGINS:
                devices = _devices(ort, self.provider)
                options.add_provider_for_devices(devices, self._settings)
                session = open_session(proto, options, None)
            else:
                session = open_session(proto, options, [(self.provider, self._settings)])
        except Exception as error:
            raise translate(error) from error
        self._check_placement(session)
        return session

    def _check_placement(self, session: onnxruntime.InferenceSession) -> None:
        if (active := session.get_providers()[0]) != self.provider:
            raise EngineUnavailableError(
                f"{self.provider} cannot be used here: ONNX Runtime fell back to {active}",
                help=broken_help(self.provider),
            )
        placed = {} if self.provider == CPU else nodes_by_provider(session)
        if placed and self.provider not in placed:
            raise EngineUnavailableError(
                f"{self.provider} runs no node of this model: all are on {', '.join(placed)}",
                help=f"ask for {CPU}, or for a provider with kernels for these operators",
            )

    def _is_lean(self, folder: engine_models.WeightFolder | None) -> bool:
        """Whether a session copies no weights, and keeps no memory for later ones."""
        return folder is not None and folder.is_large and not self.prepacking

    def _options(self, ort: ModuleType, *, arena: bool) -> onnxruntime.SessionOptions:
        options = session_options(
            self.optimization, threads=self.threads, prepacking=self.prepacking
        )
        options.enable_cpu_mem_arena = arena
        options.use_deterministic_compute = True
        if self.profile:
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(tempfile.gettempdir(), "onnx-passes-"))
        entries = {_KEEP_QDQ: not self.fuse_qdq}
        if arena and self.provider == CPU:
            with _LOCK:  # sessions are made on several threads
                _share_arena(ort)
            entries |= {_SHARED_ARENA: True}
        if self.provider != CPU:
            entries |= {_RECORD_PLACEMENT: True, _DISABLECPU_FALLBACK: not self.cpu_fallback}
        for entry, value in entries.items():
            options.add_session_config_entry(entry, str(int(value)))
        for path in self.custom_ops:
            _register_operators(options, path)
        return options


def _constants(graph: onnx.GraphProto) -> int:
    nodes = [node for node in graph.node if node.op_type == "Constant"]
    return len(graph.initializer) + len(nodes)


def _share_no_constants(options: onnxruntime.SessionOptions) -> None:
    left_out = ["ConstantSharing"]
    with suppress(RuntimeError):  # nothing was left out so far
        left_out.append(options.get_session_config_entry(_LEFT_OUT))
    options.add_session_config_entry(_LEFT_OUT, ";".join(left_out))


def _register_operators(options: onnxruntime.SessionOptions, path: str) -> None:
    """Let a session know the operators of a library."""
    if not Path(path).is_file():
        raise EngineUnavailableError(
            f"the library of operators {path!r} is not a file",
            help="give onnxruntime.custom_ops the path of a library, as its package tells it",
        )
    try:
        options.register_custom_ops_library(path)
    except Exception as error:  # ONNX Runtime's exceptions share no base
        said = " ".join(str(error).rpartition(" : ")[2].split())
        raise EngineUnavailableError(
            f"the library of operators {path!r} cannot be loaded: {said}",
            help="it must export RegisterCustomOps, and be built for this ONNX Runtime",
        ) from error


_LOCK = Lock()
_PIECES = {
    "max_mem": 0,  # as much as there is
    "arena_extend_strategy": 0,  # by powers of two, and above the last of them as requested
    "initial_chunk_size_bytes": 1 << 16,
    "initial_growth_chunk_size_bytes": 1 << 16,
    "max_power_of_two_extend_bytes": 1 << 20,
    "max_dead_bytes_per_chunk": -1,
}
"""How the arena grows; see ``OrtArenaCfg`` of ONNX Runtime."""


@cache
def _share_arena(ort: ModuleType) -> None:
    """Let sessions take memory from one arena.

    A pipeline makes dozens of sessions for a run or two each. The first touch of memory takes
    longer than most kernels; memory that another session has left is touched already. Small
    values lie side by side in pieces of up to a mebibyte. With a piece for each value, the
    next one takes longer the more are kept: thousands are where all values are recorded.
    """
    info = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    # Where whoever imports this package has made one, that one is used.
    with suppress(RuntimeError):
        ort.create_and_register_allocator(info, ort.OrtArenaCfg(_PIECES))


def is_large(model: ir.Model) -> bool:
    """Whether copies of all weights of a model would take much memory."""
    return weight_bytes(model) > LARGE


def engine_for(model: ir.Model) -> OnnxRuntimeEngine:
    """Return ONNX Runtime on the CPU, without copies of the weights of a large model."""
    return OnnxRuntimeEngine(prepacking=not is_large(model))


def rounding_engine(engine: Engine, model: ir.Model) -> Engine:
    """Return the engine that shows what a model rounds: ``engine``, if it does by itself.

    With optimizations, ONNX Runtime computes values below float32 in float32, as other engines
    do on a CPU. What overflows in float16 is hidden. Without them, each value is rounded.
    """
    if getattr(engine, "node_by_node", False) or insert_barriers(model) is model:
        return engine
    if isinstance(engine, OnnxRuntimeEngine):
        return replace(engine, optimization="none", provider=CPU, provider_options=())
    return engine_for(model)


def skipped_optimizations(engine: Engine, model: ir.Model) -> list[str]:
    """Return a sentence on each kind of optimization that an engine does not apply."""
    if not isinstance(engine, OnnxRuntimeEngine) or engine.optimization == "none":
        return []
    found: list[str] = []
    folder = None if engine.prepacking else files_folder(model)
    if folder is not None and folder.is_large:
        found.append(
            f"{engine.name} makes no other weights of more than 100 MiB: it folds no large "
            "constant and no normalization into convolutions, and makes no MatMulNBits; "
            "'prepacking: true' lets it"
        )
    held = [node for node in model.graph if node.op_type == "Constant"]
    if len(held) + len(model.graph.initializers) > MANY_CONSTANTS:
        found.append(
            f"{engine.name} looks for no equal constants, of which there are more than "
            f"{MANY_CONSTANTS}; that changes no value"
        )
    return found
