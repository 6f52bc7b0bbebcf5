"""Refutations as folders: what is reported repeats from its own script, or is not reported."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.runtime.engine_models import with_barriers
from onnx_passes.verify.bundle import REPLAY_SECONDS, Bundle, write_failing
from onnx_passes.verify.compare import default_tolerance
from onnx_passes.verify.rules.fault import Fault
from onnx_passes.verify.rules.running import Feeds


def write_refutation(
    fault: Fault, declared: Equality | Tolerance | None, folder: Path
) -> tuple[Path, str]:
    """Write two models that differ, with inputs and a script, and run the script.

    Args:
        fault: The difference; it has a result and a counterexample.
        declared: The contract of the rule.
        folder: Where to.

    Returns:
        The folder, and why the script does not show the difference; empty if it does.

    Raises:
        UsageError: The folder cannot be written.
    """
    assert fault.after is not None
    assert fault.found is not None
    limits = {}
    if fault.breaks == "tolerance":
        assert isinstance(declared, Tolerance)
        for name, array in fault.found.expected.items():
            rtol, atol = default_tolerance(array.dtype)
            limits[name] = (
                rtol if declared.rtol is None else declared.rtol,
                atol if declared.atol is None else declared.atol,
            )
    if fault.breaks == "values":
        for name, array in fault.found.expected.items():
            if array.dtype.kind == "f":
                limits[name] = default_tolerance(array.dtype)
    readme = f"# A rewrite rule that is wrong\n\nDeclared: {declared}\n\n{fault.text()}\n"
    # The script needs no package of ours, so that the models bring their barriers along.
    before, after = (
        with_barriers(_with_defaults(model, fault.found.feeds))
        for model in (fault.before, fault.after)
    )
    scaled = fault.breaks == "tolerance"
    bundle = Bundle(before, after, fault.found.feeds, limits, scaled=scaled, readme=readme)
    return write_failing([bundle], folder, REPLAY_SECONDS)


def repeats(fault: Fault, declared: Equality | Tolerance | None) -> bool:
    """Whether the script of a refutation shows it.

    A rule that raises, or makes an invalid model, has no script of this kind: that is seen
    again by applying it again.

    Args:
        fault: The refutation.
        declared: The contract of the pass; None for none.
    """
    if fault.after is None or fault.found is None:
        return True
    with tempfile.TemporaryDirectory() as scratch:
        _, why = write_refutation(fault, declared, Path(scratch) / "refutation")
    return not why


def _with_defaults(model: ir.Model, feeds: Feeds) -> ir.Model:
    """Return a copy in which inputs that have a default default to what was fed."""
    copy = model.clone()
    for value in copy.graph.inputs:
        name = value.name or ""
        if value.const_value is not None and name in feeds:
            value.const_value = ir.tensor(feeds[name], name=name)
    return copy
