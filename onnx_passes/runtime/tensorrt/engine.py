"""TensorRT as an engine: it parses and compiles anywhere, and executes beside a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import onnx_ir as ir

from onnx_passes.errors import EngineUnavailableError
from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.runtime.compiler_levels import BUILT_ONLY
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs
from onnx_passes.runtime.interface import SessionInterface
from onnx_passes.runtime.isolated import IsolatedEngine
from onnx_passes.runtime.tensorrt.bindings import (
    Package,
    install_help,
    installed_version,
    load_bindings,
)
from onnx_passes.runtime.tensorrt.build import build
from onnx_passes.runtime.tensorrt.built_layers import read_logged_layers
from onnx_passes.runtime.tensorrt.cuda_driver import device, gpu_count, gpu_missing
from onnx_passes.runtime.tensorrt.engine_options import TensorRtOptions, read_options
from onnx_passes.runtime.tensorrt.engine_store import find_cached, load_bytes, save_engine
from onnx_passes.runtime.tensorrt.log import BuildLog
from onnx_passes.runtime.tensorrt.plugin_libraries import load_plugins
from onnx_passes.runtime.tensorrt.profiles import profiles_of, values_of
from onnx_passes.runtime.tensorrt.session import TensorRtSession

DEFAULT_CAPABILITY = "8.9"
"""What TensorRT-RTX builds for where nobody says, and there is no GPU."""


@dataclass(frozen=True)
class TensorRtEngine:
    """Compile a model with NVIDIA's compiler, and execute it where there is a GPU.

    Attributes:
        package: Whose compiler.
        options: How.
    """

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
        it is run.

        Raises:
            EngineBuildError: It is parsed, and not compiled.
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
                trt,
                plan,
                log,
                interface=SessionInterface(model),
                watch=self.options.watch,
                host_code=self.options.version_compatible,
                profile=self.options.profile,
            )
        except EngineUnavailableError as error:
            yield BuiltModel(plan, error.message, log.layers)
            return
        try:
            yield session
        finally:
            session.close()

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
    """An engine that was built, and is not run.

    Attributes:
        plan: The engine, serialised.
        reason: Why it is not run.
        logged: The layers, as the builder logged them; empty where it was not built now.
    """

    plan: bytes
    reason: str
    logged: str = ""

    def layers(self) -> list[PlainDict]:
        """Return the layers, without times."""
        return read_logged_layers(self.logged)

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Say why it is not run.

        Args:
            feeds: Values by input; they are not read.
            outputs: Names of outputs; they are not read.

        Raises:
            EngineUnavailableError: Always.
        """
        raise EngineUnavailableError(
            f"{BUILT_ONLY}{self.reason}", help="compare numbers on another engine"
        )


def compiler_of(engine: Engine) -> TensorRtEngine | None:
    """Return the TensorRT engine that an engine is, in a child process or not; else None."""
    inner = engine.engine if isinstance(engine, IsolatedEngine) else engine
    return inner if isinstance(inner, TensorRtEngine) else None


def with_profiles_of(engine: Engine, model: ir.Model, samples: Sequence[Feeds]) -> Engine:
    """Return an engine with profiles that hold the samples, where it has none of its own.

    Args:
        engine: Any engine; one that is not TensorRT is returned as it is.
        model: The model.
        samples: Values by input, one mapping a sample, whose shapes the profiles hold.
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
    if not isinstance(engine, IsolatedEngine):
        return found
    spelled = {**json.loads(engine.options), "profiles": profiles}
    return replace(engine, engine=found, options=json.dumps(spelled))


def without_cache(engine: Engine) -> Engine:
    """Return an engine that builds each model anew."""
    return with_options(engine, cache="")


def without_profiles(engine: Engine) -> Engine:
    """Return an engine for models that are called otherwise."""
    return with_options(engine, profiles=())


def with_options(engine: Engine, **changed: object) -> Engine:
    """Return an engine with some options of its own changed; any other engine as it is.

    Args:
        engine: The engine, in a child process or not.
        changed: Options as :class:`TensorRtOptions` has them, those that JSON has too.
    """
    inner = compiler_of(engine)
    if inner is None or all(getattr(inner.options, k) == v for k, v in changed.items()):
        return engine
    found = replace(inner, options=inner.options.model_copy(update=changed))
    if not isinstance(engine, IsolatedEngine):
        return found
    spelled = {**json.loads(engine.options), **changed}
    return replace(engine, engine=found, options=json.dumps(spelled))


def make_tensorrt(package: Package, options: PlainMapping) -> TensorRtEngine:
    """Make an engine from the options of a pipeline file.

    Args:
        package: Which package runs it.
        options: Options by name.

    Raises:
        ConfigError: There is no such option, or a value does not fit.
    """
    read = read_options(package, options)
    if package == "tensorrt-rtx" and not read.compute_capabilities and not gpu_count():
        read = read.model_copy(update={"compute_capabilities": (DEFAULT_CAPABILITY,)})
    return TensorRtEngine(package, read)
