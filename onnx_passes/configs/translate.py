"""Steps under names of the seed system become those that do the same here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_passes.configs.steps import Group, PassUse, Step
from onnx_passes.passes import registry
from onnx_passes.passes.pass_scope import LIBRARY, Scope
from onnx_passes.passes.seed_names import uses_of

_VERIFY = "verify"
"""What the seed system calls a checkpoint."""


def translate_names(
    steps: Sequence[Step], *, for_seed: bool, scope: Scope = LIBRARY
) -> tuple[Step, ...]:
    """Replace names of the seed system by passes of this package.

    Args:
        steps: The steps.
        for_seed: Whether the pipeline was written for that system, so that a name that a pass
            here has too means what it means there.
        scope: Whose passes keep their names.
    """
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Group):
            inner = translate_names(step.steps, for_seed=for_seed, scope=scope)
            found.append(replace(step, steps=inner))
            continue
        uses = None
        foreign = (
            isinstance(step, PassUse)
            and step.name != _VERIFY
            and not registry.is_shadowed(step.name, scope)
        )
        if foreign and (for_seed or not registry.is_known(step.name)):
            uses = uses_of(step.name, for_seed=for_seed)
        if uses is None or not isinstance(step, PassUse):
            found.append(step)
            continue
        for use in uses:
            options = {**use.options, **step.options}
            found.append(replace(step, name=use.name, options=options))
    return tuple(found)
