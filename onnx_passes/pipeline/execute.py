"""Run one pass, whatever it does."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.errors import LostWeightsError, OnnxPassesError, PassError
from onnx_passes.made_up import running
from onnx_passes.model.file_stamps import changed_files, stamps_of
from onnx_passes.passes.base import Analysis, Pass, is_shipped
from onnx_passes.pipeline.time_limit import time_limit
from onnx_passes.verify.snapshot import Change


def execute(pass_: Pass, model: ir.Model, seconds: float | None) -> ir.passes.PassResult:
    """Run a pass under a time limit.

    Args:
        pass_: The pass.
        model: The model; the pass may change it.
        seconds: The time limit; None for none.

    Raises:
        PassError: It raised, did not end, or returned something else than a result.
        LostWeightsError: It wrote to a file that the model reads.
        OnnxPassesError: What the pass itself raised of our own errors.
    """
    name = pass_.name
    stamps = {} if is_shipped(type(pass_)) else stamps_of(model)
    try:
        with running(f"pass {name!r}"), time_limit(seconds, f"pass {name!r}"):
            result = pass_(model)
    except OnnxPassesError:
        raise
    except (ir.passes.PassError, ir.passes.InvariantError) as error:
        cause = error.__cause__
        if isinstance(cause, OnnxPassesError):
            raise cause from error
        reason = f"{error}: {type(cause).__name__}: {cause}" if cause else str(error)
        raise PassError(f"pass {name!r}: {reason}") from error
    except RecursionError as error:
        raise PassError(f"pass {name!r} recursed without end") from error
    except MemoryError as error:
        raise PassError(f"pass {name!r} ran out of memory") from error
    except Exception as error:
        raise PassError(
            f"pass {name!r} raised {type(error).__name__}: {error}",
            help="run again with --debug for the traceback",
        ) from error
    if changed := changed_files(stamps):
        raise LostWeightsError(
            f"pass {name!r} wrote to {', '.join(changed)}, where the weights of the model are",
            help="restore the file; a pass gives a value another tensor, not another file",
        )
    if not isinstance(result.model, ir.Model):
        raise PassError(
            f"pass {name!r} returned a {type(result.model).__name__} in place of a model",
            help="return onnx_ir.passes.PassResult(model, modified)",
        )
    return result


def complaint(pass_: Pass, change: Change) -> str | None:
    """Say what a pass of its kind must not have done.

    Args:
        pass_: The pass.
        change: What it changed.
    """
    if isinstance(pass_, Analysis) and change is not Change.NONE:
        return f"pass {pass_.name!r} is an analysis and changed the model ({change})"
    return None
