"""TensorRT as an engine: it parses and compiles anywhere, and executes beside a GPU.

Engines and timing caches are files, kept in a folder by what they were made of. The layers
that an engine made of a model can be listed.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import (
    ConfigError,
    EngineBuildError,
    EngineError,
    EngineUnavailableError,
)
from onnx_passes.model.digest import digest
from onnx_passes.model.save import pending
from onnx_passes.optional import users_call
from onnx_passes.plain import Foreign, PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import (
    BUILT_ONLY,
    Engine,
    Feeds,
    LayeredSession,
    Outputs,
    Session,
    SessionInterface,
)
from onnx_passes.runtime.engine_models import content_digest
from onnx_passes.runtime.isolated import IsolatedEngine
from onnx_passes.runtime.processes import forward_output
from onnx_passes.runtime.tensorrt.bindings import (
    BuildLog,
    Package,
    install_help,
    installed_version,
    load_bindings,
    network_flags,
    read_logged_layers,
)
from onnx_passes.runtime.tensorrt.cuda import device, gpu_count, gpu_missing
from onnx_passes.runtime.tensorrt.engine_options import (
    Dims,
    Profile,
    TensorRtOptions,
    read_options,
)
from onnx_passes.runtime.tensorrt.parsing import load_plugins, parse
from onnx_passes.runtime.tensorrt.session import TensorRtSession

_LONGEST_SHAPE = 8
"""Elements up to which an integer input may be one that decides shapes, as TensorRT has it."""


def profiles_of(model: ir.Model, samples: Sequence[Feeds]) -> PlainDict:
    """Return profiles that hold all samples, as a pipeline file spells them.

    Dimensions that are fixed in the model need no profile.
    """
    found: PlainDict = {}
    for value in model.graph.inputs:
        if value.name is None or value.shape is None or value.shape.is_static():
            continue
        arrays = [feeds.get(value.name) for feeds in samples]
        shapes = [a.shape for a in arrays if isinstance(a, np.ndarray)]
        if shapes and len({len(shape) for shape in shapes}) == 1:
            columns = list(zip(*shapes, strict=True))
            found[value.name] = {
                "min": [min(column) for column in columns],
                "opt": list(shapes[0]),
                "max": [max(column) for column in columns],
            }
    return found


def values_of(model: ir.Model, samples: Sequence[Feeds]) -> PlainDict:
    """Return the values of integer inputs that may decide shapes, as profiles."""
    found: PlainDict = {}
    for value in model.graph.inputs:
        static = value.shape is not None and value.shape.is_static()
        if not static or value.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
            continue
        arrays = [a for f in samples if isinstance(a := f.get(str(value.name)), np.ndarray)]
        if arrays and arrays[0].ndim <= 1 and arrays[0].size <= _LONGEST_SHAPE:
            stacked = np.stack([np.atleast_1d(a) for a in arrays])
            found[str(value.name)] = {
                "min": stacked.min(axis=0).tolist(),
                "opt": stacked[0].tolist(),
                "max": stacked.max(axis=0).tolist(),
            }
    return found


def add_profiles(
    builder: Foreign, network: Foreign, config: Foreign, given: Sequence[Sequence[Profile]]
) -> None:
    """Give a config the profiles that a network needs, if it needs any.

    ``given`` has, per profile, shapes or values by input; inputs that need none are ignored. A
    ConfigError names an input that has none, or one that does not fit.
    """
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    wanting = [t for t in inputs if -1 in tuple(t.shape) or t.is_shape_tensor]
    if not wanting:
        return
    for profile in given or ((),):
        known: Mapping[str, Profile] = {one.name: one for one in profile}
        made = builder.create_optimization_profile()
        for tensor in wanting:
            if tensor.name not in known:
                kind = "values" if tensor.is_shape_tensor else "shapes"
                raise ConfigError(
                    f"input {tensor.name!r} needs a profile: its {kind} are not fixed",
                    help=f"profiles: {{{tensor.name}: {{min: [..], opt: [..], max: [..]}}}}",
                )
            _set(made, tensor, known[tensor.name])
        if config.add_optimization_profile(made) < 0:
            raise EngineError("the profile is refused: one of its ranges is empty")


def _set(made: Foreign, tensor: Foreign, profile: Profile) -> None:
    sizes = (profile.min, profile.opt, profile.max)
    if not tensor.is_shape_tensor:
        _check_shape(tensor, profile, sizes)
    setter = made.set_shape_input if tensor.is_shape_tensor else made.set_shape
    try:
        setter(tensor.name, *sizes)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"profiles.{tensor.name}: {error}") from error


def _check_shape(tensor: Foreign, profile: Profile, sizes: tuple[Dims, ...]) -> None:
    shape = tuple(tensor.shape)
    for size in sizes:
        fits = len(size) == len(shape) and all(
            dim in (-1, s) for dim, s in zip(shape, size, strict=True)
        )
        if not fits:
            raise ConfigError(
                f"profiles.{tensor.name}: {list(size)} does not fit its shape {list(shape)}"
            )


_NOT_OF_THE_ENGINE = {
    *("verbosity", "cache", "save", "load", "require", "timing_cache"),
    *("region_builds", "region_share"),
}


def save_engine(path: str | Path, plan: bytes, option: str = "save") -> None:
    """Write an engine, or what else TensorRT serialises, in one step or not at all.

    ``option`` is what asked for it, for the ConfigError if it cannot be written.
    """
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with pending(place) as file:
            file.write(plan)
            file.publish(place)
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror or error}") from error


def load_bytes(path: str | Path, option: str, *, missing: bytes | None = None) -> bytes:
    """Return what a file holds.

    Returns ``missing`` where there is no such file; None makes that a ConfigError too.
    """
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        if missing is not None:
            return missing
        raise ConfigError(f"{option}: there is no file {path}") from error
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror or error}") from error


def find_cached(package: Package, options: TensorRtOptions, model: ir.Model) -> Path | None:
    """Return where the cache has the engine of a model, whether it is there or not.

    The name is a digest of all that makes an engine: the model with names and weights, the
    options, the version of the package, and the GPU with its driver. Hooks are code, whose
    effect has no digest: with them nothing is cached. None where the options name no cache, or
    a hook. Raises ModelError if a weight cannot be read.
    """
    if not options.cache or options.network_hook or options.config_hook:
        return None
    given = options.model_dump(mode="json", exclude=_NOT_OF_THE_ENGINE)
    here = device()
    key = digest(
        "engine",
        package,
        installed_version(package),
        json.dumps(given, sort_keys=True),
        None if here is None else (here.name, here.capability, here.driver),
        tuple(_content(path) for path in options.plugins),
        content_digest(model),
    )
    return Path(options.cache) / f"{key.hex()}.engine"


def _content(path: str) -> bytes:
    return digest(load_bytes(path, "plugins"))


_MOST_ERRORS = 3


def build(
    package: Package, options: TensorRtOptions, model: ir.Model, log: BuildLog | None = None
) -> bytes:
    """Compile a model to a serialised engine; two builds of one model differ.

    Raises EngineUnavailableError if the package is not there or needs a GPU,
    UnsupportedModelError if the parser refuses the model, EngineBuildError if the builder
    does, and ConfigError for options.
    """
    trt = load_bindings(package)
    log = log or BuildLog(trt, options.verbosity)
    _needs_gpu(package, options)
    try:
        # The bindings free each in any order, and need the ones before it alive: all stay
        # local names until the end.
        builder = trt.Builder(log.listener)
        network = builder.create_network(network_flags(trt))
        parser = trt.OnnxParser(network, log.listener)
    except (TypeError, RuntimeError) as error:  # pybind11 has no object to give
        raise EngineUnavailableError(
            f"{package} cannot start: {'; '.join(log.errors) or error}",
            help="check the driver of the GPU: nvidia-smi",
        ) from error
    load_plugins(trt, log, options.plugins)
    try:
        parse(parser, model)
        _call(options.network_hook, "network_hook", trt, network)
        config = builder.create_builder_config()
        cache = configure(trt, config, options)
        _call(options.config_hook, "config_hook", trt, config)
        add_profiles(builder, network, config, options.profiles)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise EngineBuildError(f"the builder does not compile it: {_quote_log(log)}")
    except EngineError as error:
        error.where = error.where or log.text
        raise
    if cache is not None:
        save_engine(options.timing_cache, bytes(cache.serialize()), "timing_cache")
    data = bytes(plan)
    if options.save:
        save_engine(options.save, data, "save")
    return data


def _needs_gpu(package: Package, options: TensorRtOptions) -> None:
    if gpu_count():
        return
    if package == "tensorrt":
        raise EngineUnavailableError(
            "tensorrt builds only for the GPU of this machine, and there is none",
            help="run it on a machine with an NVIDIA GPU, or use tensorrt-rtx, which builds "
            "for named compute capabilities",
        )
    if not options.compute_capabilities:  # TensorRT for RTX builds for its own GPU then
        raise EngineUnavailableError(
            "there is no GPU to build for on this machine",
            help="name compute_capabilities, such as [8.9]",
        )


def _call(hook: str, option: str, trt: ModuleType, subject: object) -> None:
    if not hook:
        return
    module, _, function = hook.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{option}: {hook} cannot be found: {error}",
            help="list the module under 'imports', or put it beside the pipeline file",
        ) from error
    how = "it is called with the bindings and what it may change"
    with users_call(f"{option} {hook}", EngineError, how), forward_output():
        found(trt, subject)


def _quote_log(log: BuildLog) -> str:
    return "; ".join(log.errors[-_MOST_ERRORS:]) or "it gives no reason"


def configure(trt: ModuleType, config: Foreign, options: TensorRtOptions) -> Foreign | None:
    """Set the options on a builder's config.

    Returns the timing cache, None without one. A ConfigError says which option does not fit.
    """
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    if options.profile:
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if options.optimization_level is not None:
        config.builder_optimization_level = options.optimization_level
    if options.workspace is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace)
    if options.compute_capabilities:
        _target(trt, config, options.compute_capabilities)
    elif hasattr(trt, "ComputeCapability"):
        _target_here(trt, config)
    if not options.timing_cache:
        return None
    known = load_bytes(options.timing_cache, "timing_cache", missing=b"")
    cache = config.create_timing_cache(known)
    if cache is None or not config.set_timing_cache(cache, False):
        raise ConfigError(
            f"timing_cache: {options.timing_cache} is of another version or GPU",
            help="remove the file, or name another",
        )
    return cache


def _target(trt: ModuleType, config: Foreign, wanted: tuple[str, ...]) -> None:
    if not hasattr(trt, "ComputeCapability"):
        raise ConfigError(
            "compute_capabilities: tensorrt builds for the GPU of this machine only",
            help="leave the option out, or use tensorrt-rtx",
        )
    names = [f"SM{one.replace('.', '')}" for one in wanted]
    # An enumeration of the bindings lists its members by name.
    members = trt.ComputeCapability.__members__
    for one, name in zip(wanted, names, strict=True):
        if name not in members:
            known = [f"{n[2:-1]}.{n[-1]}" for n in members if n.startswith("SM")]
            raise ConfigError(
                f"compute_capabilities: {trt.__name__} {trt.__version__} does not build for "
                f"{one}",
                help=f"it knows {', '.join(known)}",
            )
    config.num_compute_capabilities = len(names)
    for index, name in enumerate(names):
        config.set_compute_capability(members[name], index)


def _target_here(trt: ModuleType, config: Foreign) -> None:
    """Build for the GPU of this machine; the package's default is a set that may lack it."""
    here = device()
    assert here is not None, "without a GPU, capabilities are named"
    members = trt.ComputeCapability.__members__
    name = f"SM{here.capability.replace('.', '')}"
    config.num_compute_capabilities = 1
    config.set_compute_capability(members.get(name, trt.ComputeCapability.CURRENT), 0)


DEFAULT_CAPABILITY = "8.9"
"""What TensorRT-RTX builds for where nobody says, and there is no GPU."""


@dataclass(frozen=True)
class TensorRtEngine:
    """Compile a model with NVIDIA's compiler, and execute it where there is a GPU."""

    package: Package
    options: TensorRtOptions
    only_compiles: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The package, and what it builds for."""
        parts = [", ".join(self.options.compute_capabilities)]
        parts += ["tf32"] if self.options.tf32 else []
        shown = ", ".join(part for part in parts if part)
        return f"{self.package}[{shown}]" if shown else self.package

    @property
    def require(self) -> str | None:
        """Level that a pipeline demands."""
        return self.options.require

    @property
    def target(self) -> str:
        """What it builds for, in words."""
        found = self.options.compute_capabilities
        if not found:
            return "the GPU of this machine"
        return f"compute capability {', '.join(found)}"

    @property
    def missing(self) -> EngineUnavailableError | None:
        """What this machine lacks for this engine to compile anything; None for nothing."""
        if installed_version(self.package) is None:
            return EngineUnavailableError(
                f"{self.package} is not installed", help=install_help(self.package)
            )
        return None

    @property
    def executes(self) -> bool:
        """Whether there is a GPU to execute on; whether it takes the engine shows in a run."""
        return gpu_missing() is None

    @property
    def not_executed(self) -> str:
        """Why nothing is executed on this machine, in a clause; empty beside a GPU."""
        return gpu_missing() or ""

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the version, the GPU and every option, whether it is installed or not."""
        options = self.options.model_dump(exclude_none=True)
        settings = {
            key: value if isinstance(value, str | int | bool) else json.dumps(value)
            for key, value in options.items()
            if value not in ("", ())
        }
        version = installed_version(self.package) or "not installed"
        here = device()
        gpu: dict[str, str] = (
            {}
            if here is None
            else {
                "gpu": here.name,
                "compute_capability": here.capability,
                "driver": here.driver,
            }
        )
        engine = {"engine": self.package, "version": version}
        return {**engine, **gpu, "strongly_typed": True, **settings}

    @contextmanager
    def prepare(self, model: ir.Model) -> Iterator[TensorRtSession | BuiltModel]:
        """Compile ``model``, or take it from a file or the cache, and load it; see ``Engine``.

        Without a GPU, or with one that does not take the engine, what is yielded says so when
        it is run. Raises EngineBuildError if it is parsed, and not compiled.
        """
        trt = load_bindings(self.package)
        log = BuildLog(trt, self.options.verbosity)
        plan = self._plan(model, log)
        if not self.executes:
            yield BuiltModel(plan, self.not_executed, log.layers)
            return
        log.begin()
        load_plugins(trt, log, self.options.plugins)
        try:
            session = TensorRtSession(
                trt, plan, log, interface=SessionInterface(model), profile=self.options.profile
            )
        except EngineUnavailableError as error:
            yield BuiltModel(plan, error.message, log.layers)
            return
        with closing(session):
            yield session

    def _plan(self, model: ir.Model, log: BuildLog) -> bytes:
        options = self.options
        if options.load:
            if not self.executes:
                raise EngineUnavailableError(
                    f"{options.load} can only be executed, and {self.not_executed}",
                    help="run it on a machine with an NVIDIA GPU and its driver",
                )
            return load_bytes(options.load, "load")
        place = find_cached(self.package, options, model)
        if place is None:
            return build(self.package, options, model, log)
        plan = load_bytes(place, "cache", missing=b"")
        if not plan:
            plan = build(self.package, options, model, log)
            save_engine(place, plan, "cache")
        elif options.save:
            save_engine(options.save, plan)
        return plan


@dataclass(frozen=True)
class BuiltModel:
    """A serialised engine that was built, and is not run for some reason.

    ``logged`` has the layers as the builder logged them; empty where it was not built now.
    """

    plan: bytes
    reason: str
    logged: str = ""

    def layers(self) -> list[PlainDict]:
        """Return the layers, without times."""
        return read_logged_layers(self.logged)

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Raise EngineUnavailableError with the reason."""
        raise EngineUnavailableError(
            f"{BUILT_ONLY}{self.reason}", help="compare numbers on another engine"
        )


def compiler_of(engine: Engine) -> TensorRtEngine | None:
    """Return the TensorRT engine that an engine is, in a child process or not; else None."""
    inner = engine.engine if isinstance(engine, IsolatedEngine) else engine
    return inner if isinstance(inner, TensorRtEngine) else None


def with_profiles_of(engine: Engine, model: ir.Model, samples: Sequence[Feeds]) -> Engine:
    """Return an engine with profiles that hold the samples, where it has none of its own.

    An engine that is not TensorRT is returned as it is.
    """
    inner = compiler_of(engine)
    if inner is None:
        return engine
    seen = {**values_of(model, samples), **profiles_of(model, samples)}
    known = inner.options.spelled_profiles or [{}]
    if all(seen.keys() <= profile.keys() for profile in known):
        return engine
    profiles = [{**seen, **profile} for profile in known]
    read = read_options(inner.package, {"profiles": profiles}).profiles
    found = replace(inner, options=inner.options.model_copy(update={"profiles": read}))
    return _around(engine, found, {"profiles": profiles})


def without_cache(engine: Engine) -> Engine:
    """Return an engine that builds each model anew."""
    return with_options(engine, cache="")


def without_profiles(engine: Engine) -> Engine:
    """Return an engine for models that are called otherwise."""
    return with_options(engine, profiles=())


def with_options(engine: Engine, **changed: object) -> Engine:
    """Return an engine with some options of its own changed; any other engine as it is.

    The options are those of :class:`TensorRtOptions` that JSON has too.
    """
    inner = compiler_of(engine)
    if inner is None or all(getattr(inner.options, k) == v for k, v in changed.items()):
        return engine
    found = replace(inner, options=inner.options.model_copy(update=changed))
    return _around(engine, found, changed)


def _around(engine: Engine, inner: Engine, spelled: PlainMapping) -> Engine:
    """Return another engine, in a child process if the first one is in one."""
    if not isinstance(engine, IsolatedEngine):
        return inner
    options = json.dumps({**json.loads(engine.options), **spelled})
    return replace(engine, engine=inner, options=options)


def make_tensorrt(package: Package, options: PlainMapping) -> TensorRtEngine:
    """Make an engine from the options of a pipeline file; ConfigError for a bad one."""
    read = read_options(package, options)
    if package == "tensorrt-rtx" and not read.compute_capabilities and not gpu_count():
        read = read.model_copy(update={"compute_capabilities": (DEFAULT_CAPABILITY,)})
    return TensorRtEngine(package, read)


@dataclass(frozen=True)
class EngineLayer:
    """One layer, kernel or node of what an engine runs.

    ``name`` and ``kind`` are the engine's words. ``how`` is a tactic, a kernel or an execution
    provider, and ``nodes`` the ONNX nodes that it was made of; "" if not known. ``seconds`` is
    the mean of one run; None where not measured.
    """

    name: str
    kind: str
    how: str = ""
    nodes: str = ""
    seconds: float | None = None


def with_profiling(engine: Engine) -> Engine | None:
    """Return an engine whose sessions report their layers; None if it has no such option."""
    if compiler_of(engine) is not None:
        return with_options(engine, profile=True)
    inner = engine.engine if isinstance(engine, IsolatedEngine) else engine
    if not dataclasses.is_dataclass(inner) or not hasattr(inner, "profile"):
        return None
    return _around(engine, replace(inner, profile=True), {"profile": True})


def layers_of(session: Session) -> list[EngineLayer]:
    """Return the layers of a session of an engine :func:`with_profiling`, after its runs."""
    if not isinstance(session, LayeredSession):
        return []
    return [EngineLayer(**one) for one in session.layers()]


def built_layers(engine: Engine, model: ir.Model) -> list[EngineLayer]:
    """Return the layers that an engine makes of a model; none if it does not report them.

    The model is built once more.
    """
    own = with_profiling(engine)
    if own is None:
        return []
    try:
        with own.prepare(model) as session:
            return layers_of(session)
    except (ConfigError, EngineError):
        return []
