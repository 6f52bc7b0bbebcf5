"""TensorRT as an engine that parses and compiles; what it builds is not executed here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from onnx_passes.errors import EngineUnavailableError
from onnx_passes.runtime.base import Engine, Feeds, Outputs
from onnx_passes.runtime.isolated import IsolatedEngine
from onnx_passes.runtime.tensorrt.bindings import (
    Package,
    gpu_count,
    install_help,
    installed_version,
)
from onnx_passes.runtime.tensorrt.build import build
from onnx_passes.runtime.tensorrt.options import TensorRtOptions, read_options
from onnx_passes.runtime.tensorrt.profiles import observed_profiles, observed_values

DEFAULT_CAPABILITY = "8.9"
"""What TensorRT-RTX builds for where nobody says, and there is no GPU."""


@dataclass(frozen=True)
class TensorRtEngine:
    """Parse and compile a model with NVIDIA's compiler.

    Attributes:
        package: Whose compiler.
        options: How.
    """

    package: Package
    options: TensorRtOptions

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
    def not_executed(self) -> str:
        """Why what it builds is not executed, in one clause."""
        if not gpu_count():
            return "there is no GPU on this machine"
        return "onnx-passes compiles with TensorRT and does not execute yet"

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the version and every option, whether it is installed or not."""
        options = self.options.model_dump(exclude_none=True)
        told = {
            key: value if isinstance(value, str | int | bool) else json.dumps(value)
            for key, value in options.items()
            if value not in ("", ())
        }
        version = installed_version(self.package) or "not installed"
        return {"engine": self.package, "version": version, "strongly_typed": True, **told}

    @contextmanager
    def prepare(self, model: ir.Model) -> Iterator[BuiltModel]:
        """Parse and compile ``model``; see ``Engine.prepare``.

        Raises:
            EngineBuildError: It is parsed, and not compiled.
        """
        yield BuiltModel(build(self.package, self.options, model), self.not_executed)


@dataclass(frozen=True)
class BuiltModel:
    """An engine that was built, and is not run.

    Attributes:
        plan: The engine, serialised.
        reason: Why it is not run.
    """

    plan: bytes
    reason: str

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Say why it is not run.

        Raises:
            EngineUnavailableError: Always.
        """
        raise EngineUnavailableError(
            f"the engine was built and is not executed: {self.reason}",
            help="compare numbers on another engine",
        )


def compiler_of(engine: Engine) -> TensorRtEngine | None:
    """Return the TensorRT engine that an engine is, in a child process or not; else None."""
    inner = engine.engine if isinstance(engine, IsolatedEngine) else engine
    return inner if isinstance(inner, TensorRtEngine) else None


def fitted(engine: Engine, model: ir.Model, samples: Sequence[Feeds]) -> Engine:
    """Return an engine with profiles that hold the samples, where it has none of its own."""
    inner = compiler_of(engine)
    if inner is None:
        return engine
    seen = {**observed_values(model, samples), **observed_profiles(model, samples)}
    known = inner.options.spelled_profiles
    if not seen.keys() - known.keys():
        return engine
    profiles = {**seen, **known}
    given = inner.options.model_dump(exclude_none=True, exclude={"profiles"})
    options = read_options(inner.package, {**given, "profiles": profiles})
    found = replace(inner, options=options)
    if not isinstance(engine, IsolatedEngine):
        return found
    spelled = {**json.loads(engine.options), "profiles": profiles}
    return replace(engine, engine=found, options=json.dumps(spelled))


def make_tensorrt(package: Package, options: Mapping[str, Any]) -> TensorRtEngine:
    """Make an engine from the options of a pipeline file.

    Raises:
        ConfigError: There is no such option, or a value does not fit.
    """
    read = read_options(package, options)
    if package == "tensorrt-rtx" and not read.compute_capabilities and not gpu_count():
        read = read.model_copy(update={"compute_capabilities": (DEFAULT_CAPABILITY,)})
    return TensorRtEngine(package, read)
