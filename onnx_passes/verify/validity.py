"""Is the model that a run begins with valid? Broken originals are refused, not optimised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import onnx
import onnx_ir as ir

from onnx_passes.errors import EngineError, ModelError
from onnx_passes.risky_runs import running
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.checker import complaints
from onnx_passes.verify.well_formed import check_structure

_HELP = (
    "correct the model where it is made; --allow-invalid, or verify.allow_invalid, accepts it "
    "with a note in the report"
)
# Engines take declared shapes as hints, and onnx's inference does not know all that they do.
_SHAPES = re.compile(r"\b(shapes?|dimensions?|dims?|rank)\b", re.IGNORECASE)
_IN_FUNCTION = "Inference error(s)"
_NO_IMPORT = re.compile(r"is of the domain '(?!ai\.onnx)[^']+', which has no opset import")


def check_validity(
    model: ir.Model,
    engines: Sequence[Engine],
    *,
    allow_invalid: bool = False,
    where: str | None = None,
) -> list[str]:
    """Check a model as onnx's checker does, with all types inferred, and refuse a broken one.

    onnx's checker refuses models that engines run, such as those that ONNX Runtime saves
    after it optimised them. So what is wrong is a note where an engine loads the model.

    Args:
        model: The original.
        engines: The engines of the run. The first that can decide does.
        allow_invalid: Whether a broken model is accepted all the same.
        where: What a message calls the model.

    Returns:
        What is wrong and was accepted, a sentence each.

    Raises:
        ModelError: The model is not valid, and no engine loads it.
    """
    faults = [*_opset_faults(model), *_faults(model)]
    notes = [f"the original is not valid ONNX: {fault}" for fault in faults]
    if not faults or allow_invalid:
        return notes
    loads = _loads(model, engines)
    fatal = [fault for fault in faults if _IN_FUNCTION not in fault]
    if loads is None:  # it lacks an operator of the model, or there is no engine
        fatal = [f for f in fatal if not _SHAPES.search(f) and not _NO_IMPORT.search(f)]
    if loads or not fatal:
        return notes
    more = f"; and {len(fatal) - 1} more" if len(fatal) > 1 else ""
    raise ModelError(f"the model is not valid ONNX: {fatal[0]}{more}", where=where, help=_HELP)


def _faults(model: ir.Model) -> list[str]:
    found = check_structure(model, full=True)
    if found and all(_NO_IMPORT.search(fault) for fault in found):
        found += complaints(model, full=True, lenient=True)
    return found


def _opset_faults(model: ir.Model) -> Iterator[str]:
    """Yield the opset imports of ONNX's own domains that no released onnx knows."""
    known = {
        "": onnx.defs.onnx_opset_version(),
        "ai.onnx.ml": max(row[3] for row in onnx.helper.VERSION_TABLE),
    }
    holders = [("the model", model.opset_imports)]
    holders += [
        (f"function {function.domain}::{function.name}", function.opset_imports)
        for function in model.functions.values()
    ]
    for holder, imports in holders:
        for domain, version in imports.items():
            if domain in known and not 1 <= version <= known[domain]:
                yield (
                    f"{holder} imports opset {version} of {domain or 'ai.onnx'}, and onnx "
                    f"{onnx.__version__} knows opsets 1 to {known[domain]}"
                )


def _loads(model: ir.Model, engines: Sequence[Engine]) -> bool | None:
    """Whether an engine loads a model; None if none of them can decide."""
    for engine in engines:
        if isinstance(getattr(engine, "engine", engine), ReferenceEngine):
            continue  # it looks at nothing before it runs
        try:
            with running("the load of the original"), engine.prepare(model):
                return True
        except EngineError as error:
            if type(error) is EngineError:
                return False
    return None
