"""The layers that an engine made of a model, and the time of each, if it reports them."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, replace

import onnx_ir as ir

from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.runtime.engine_base import Engine, LayeredSession, Session
from onnx_passes.runtime.isolated import IsolatedEngine
from onnx_passes.runtime.tensorrt.engine import compiler_of, with_options


@dataclass(frozen=True)
class EngineLayer:
    """One layer, kernel or node of what an engine runs.

    Attributes:
        name: The engine's own name of it.
        kind: What it computes, in the engine's words.
        how: What computes it: a tactic, a kernel, an execution provider; empty if not known.
        nodes: The ONNX nodes that it was made of, as text; empty if not known.
        seconds: Mean time of one run; None where it was not measured.
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
    inner = replace(inner, profile=True)
    if not isinstance(engine, IsolatedEngine):
        return inner
    options = json.dumps({**json.loads(engine.options), "profile": True})
    return replace(engine, engine=inner, options=options)


def layers_of(session: Session) -> list[EngineLayer]:
    """Return the layers of a session of a :func:`profiled` engine, after its runs."""
    if not isinstance(session, LayeredSession):
        return []
    return [EngineLayer(**one) for one in session.layers()]


def built_layers(engine: Engine, model: ir.Model) -> list[EngineLayer]:
    """Return the layers that an engine makes of a model; none if it does not report them.

    Args:
        engine: The engine.
        model: The model, which is built once more.
    """
    own = with_profiling(engine)
    if own is None:
        return []
    try:
        with own.prepare(model) as session:
            return layers_of(session)
    except (ConfigError, EngineError):
        return []
