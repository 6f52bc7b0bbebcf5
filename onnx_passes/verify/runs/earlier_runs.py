"""Results of earlier runs, beside models that run now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.verify.runs.batches import nearest
from onnx_passes.verify.runs.found import Found, Run
from onnx_passes.verify.runs.settings import Settings


def parts(run: Run, sample: int, settings: Settings) -> Iterator[Outputs]:
    """Yield saved values of a sample, as many at once as memory has room for.

    Args:
        run: The saved run.
        sample: Number of the sample.
        settings: Which values are wanted, and the share of memory.

    Raises:
        UsageError: A value that was asked for is not among them.
    """
    values = run.values
    assert values is not None
    part: dict[str, Data] = {}
    held = 0
    for name in _chosen(values.names(sample), settings.wanted):
        part[name] = values.get(sample, name)
        held += int(getattr(part[name], "nbytes", 0))
        if held >= settings.share:
            yield part
            part, held = {}, 0
    if part:
        yield part


def _chosen(names: list[str], wanted: Sequence[str] | None) -> list[str]:
    for name in wanted or ():
        if name not in names:
            raise UsageError(
                f"the saved results have no value {name!r}", help=nearest(name, names)
            )
    return [name for name in names if wanted is None or name in wanted]


def admit(run: Run, found: Found, models: Sequence[tuple[ir.Model, str]]) -> Iterator[str]:
    """Refuse results of other inputs, or of a model with other outputs.

    Args:
        run: Saved results.
        found: Knows the number of samples, and the digests of their inputs.
        models: What runs now, with the hash of each.

    Yields:
        What a reader has to know about them.

    Raises:
        ReferenceDataError: They belong to something else.
    """
    count = len(run.values or ())
    known = bool(run.inputs and found.inputs)
    if count != found.samples or (known and run.inputs != found.inputs):
        raise ReferenceDataError(
            f"the saved results of {run.name!r} came from other inputs: they have {count} "
            f"samples, and there are {found.samples} here",
            help="give the inputs that were saved with them (--load-inputs), or the same "
            "--generate",
        )
    if not run.inputs:
        yield f"nothing says which model and inputs {run.name!r} came from"
    own = [[str(value.name) for value in model.graph.outputs] for model, _ in models]
    if own and run.types and not any(set(names) & run.types.keys() for names in own):
        raise ReferenceDataError(
            f"the saved results of {run.name!r} came from another model: its outputs are "
            f"{', '.join(run.types)}",
            help=f"the model here gives {', '.join(own[0])}",
        )
    hashes = [own_hash for _, own_hash in models if own_hash]
    if hashes and run.model_hash and run.model_hash not in hashes:
        yield f"{run.name!r} was saved from a model that computes something else"
