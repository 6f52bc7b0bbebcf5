"""Which of a pass's rewrites is the wrong one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.passes.base import Pass
from onnx_passes.passes.context import Application, Rewrites


def find_culprit(
    make: Callable[[], Pass],
    restore: Callable[[], ir.Model],
    applied: Sequence[Application],
    fails: Callable[[ir.Model], bool],
    skip: frozenset[str] = frozenset(),
) -> Application | None:
    """Find the first rewrite after which the check fails, in a logarithmic number of runs.

    Args:
        make: Creates the pass anew.
        restore: Returns the model before the pass.
        applied: The rewrites that the pass made, in order.
        fails: Whether a model fails the check that the whole pass failed.
        skip: Keys of rewrites that the pass did not make.

    Returns:
        The rewrite; None where no single one can be named.
    """
    if len(applied) <= 1:
        return applied[0] if applied else None

    def fails_after(count: int) -> bool:
        pass_ = make()
        pass_.context.rewrites = Rewrites(limit=count, skip=skip)
        model = pass_(restore()).model
        same = [a.key for a in pass_.context.rewrites.applied] == [
            a.key for a in applied[:count]
        ]
        if not same:
            raise OnnxPassesError("the pass does not repeat its rewrites")
        return fails(model)

    good, bad = 0, len(applied)
    try:
        while bad - good > 1:
            middle = (good + bad) // 2
            if fails_after(middle):
                bad = middle
            else:
                good = middle
    except Exception:
        # Localising explains a failure that is already certain: it must not replace it.
        return None
    return applied[bad - 1]
