"""Inputs of a model that is run in steps; each step reads the states of the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError, ReferenceDataError
from onnx_passes.runtime.engine_base import Feeds, Outputs, Session
from onnx_passes.runtime.inputs.dims import symbols_of
from onnx_passes.runtime.inputs.seeded_feeds import Ranges, generate
from onnx_passes.runtime.interface import did_you_mean

Feed = Mapping[str, str]
"""For inputs, the outputs of the step before that they read."""


def check_feed(model: ir.Model, feed: Feed) -> None:
    """Check that states can go from outputs to inputs.

    Args:
        model: The model.
        feed: The output that each input is read from, by input.

    Raises:
        ReferenceDataError: There is no such input or output, or their types differ.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    outputs = {str(value.name): value for value in model.graph.outputs}
    for name, source in feed.items():
        for word, one, known in (("input", name, inputs), ("output", source, outputs)):
            if one not in known:
                raise ReferenceDataError(
                    f"reference.feed: there is no {word} {one!r}",
                    help=did_you_mean(one, known) + "; write feed: {INPUT: OUTPUT}",
                )
        to, out = inputs[name].dtype, outputs[source].dtype
        if None not in (to, out) and to != out:
            raise ReferenceDataError(
                f"reference.feed: {name!r} is {_word(to)}, and {source!r} is {_word(out)}"
            )


def run_steps(
    session: Session, steps: int, feed: Feed, inputs: Callable[[int, Feeds], Feeds]
) -> tuple[list[Feeds], list[Outputs]]:
    """Run a model step by step.

    Args:
        session: The model.
        steps: How many.
        feed: Where the states of a step come from.
        inputs: Returns the inputs of a step, given its number and its states; there are none
            at step 0.

    Returns:
        The feeds and the outputs of each step.

    Raises:
        EngineError: A step does not run; the message has its number.
    """
    fed: list[Feeds] = []
    found: list[Outputs] = []
    for step in range(steps):
        states = {name: found[-1][source] for name, source in feed.items()} if found else {}
        fed.append({**inputs(step, states), **states})
        try:
            found.append(session.run(fed[-1]))
        except EngineError as error:
            error.message = f"step {step} does not run: {error.message}"
            raise
    return fed, found


def generated_steps(
    model: ir.Model, first: Feeds, *, seed: int, ranges: Ranges | None = None
) -> Callable[[int, Feeds], Feeds]:
    """Return what makes up the inputs of each step, in sizes that fit its states.

    A dynamic dimension of a state has the size that the state has, wherever its name stands;
    other dimensions stay what they are at the first step.

    Args:
        model: The model.
        first: The inputs of the first step, its states included.
        seed: That of the first step.
        ranges: As for ``generate``.
    """
    symbols = symbols_of([v for v in model.graph.inputs if not v.is_initializer()], model)

    def sizes(feeds: Feeds) -> dict[str, int]:
        return {
            dim: size
            for name, value in feeds.items()
            if name in symbols.shapes and isinstance(value, np.ndarray)
            for dim, size in zip(symbols.shapes[name], value.shape, strict=False)
            if isinstance(dim, str) and dim in symbols.kinds
        }

    def make(step: int, states: Feeds) -> Feeds:
        if not step:
            return first
        dims = sizes(first) | sizes(states)
        (made,) = generate(model, seed=seed + step, samples=1, ranges=ranges, dims=dims)
        return made

    return make


def given_steps(samples: Sequence[Feeds]) -> Callable[[int, Feeds], Feeds]:
    """Return what takes the inputs of each step from given samples, which take turns."""
    return lambda step, states: samples[step % len(samples)]


def _word(dtype: ir.DataType | None) -> str:
    return "of no type" if dtype is None else dtype.name.lower()
