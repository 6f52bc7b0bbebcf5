"""Values of a model on the user's data, as passes record them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import PassError
from onnx_passes.model.copy import copy_model
from onnx_passes.passes.precision._session import start_beside
from onnx_passes.passes.precision._watch import WatchProbe, inner_values, probe, watch


def read_feeds(paths: Sequence[str], pass_: str) -> list[dict[str, Array]]:
    """Read samples: each .npz file holds the inputs of one run by name.

    Args:
        paths: The files.
        pass_: Name of the pass, for messages.

    Raises:
        PassError: A file cannot be read.
    """
    found = []
    for path in paths:
        try:
            with np.load(Path(path), allow_pickle=False) as arrays:
                found.append({name: arrays[name] for name in arrays.files})
        except (OSError, ValueError, AttributeError) as error:
            raise PassError(
                f"{pass_}: the data {path!r} cannot be read: {error}",
                help="give .npz files, each with the inputs of one run by name",
            ) from error
    return found


def record(
    model: ir.Model,
    feeds: Sequence[Mapping[str, Array]],
    names: Collection[str],
    pass_: str,
    *,
    bodies: bool = False,
) -> Iterator[dict[str, Array]]:
    """Run a model as it is written, and yield some of its float values for each sample.

    Args:
        model: The model; not changed. Its types have to be known.
        feeds: The inputs of each sample by name, of the shapes and types of the model.
        names: The values wanted; constants, and those of other types, are left out.
        pass_: The pass that asks, for errors.
        bodies: Whether ranges of values in bodies are yielded too. In place of such a value
            is an array of shape [2]: its least and greatest finite element over all
            iterations, at most and at least 0.

    Raises:
        PassError: ONNX Runtime does not run the model on the data.
    """
    wanted = set(names)
    watched: dict[str, str] = {}
    if bodies:
        model = copy_model(model)
        watched = watch(model, wanted)
    inputs = {str(v.name) for v in model.graph.inputs} & wanted
    inner = [
        str(v.name)
        for node in model.graph
        if node.op_type != "Constant"
        for v in node.outputs
        if v.name in wanted and v.dtype is ir.DataType.FLOAT
    ]
    for feed, arrays in zip(feeds, _run(model, feeds, inner, [*watched], pass_), strict=True):
        found = _join_ranges((name, arrays[end]) for end, name in watched.items())
        found |= {name: arrays[name] for name in inner}
        yield found | {name: np.asarray(feed[name]) for name in inputs if name in feed}


def record_probes(
    model: ir.Model,
    feeds: Sequence[Mapping[str, Array]],
    probes: Mapping[int, Sequence[tuple[str, WatchProbe]]],
    pass_: str,
) -> Iterator[dict[str, Array]]:
    """Run a model, and yield for each sample what probes measure in its bodies.

    Args:
        model: The model; not changed. Its types have to be known.
        feeds: The inputs of each sample by name, of the shapes and types of the model.
        probes: Probes, each with a key, by the number of their value among
            :func:`onnx_passes.passes.precision._watch.inner_values`.
        pass_: The pass that asks, for errors.

    Raises:
        PassError: ONNX Runtime does not run the model on the data.
    """
    copy = copy_model(model)
    values = list(inner_values(copy))
    keys = probe(copy, {values[number]: found for number, found in probes.items()})
    for arrays in _run(copy, feeds, [], [*keys], pass_):
        yield {key: arrays[name] for name, key in keys.items()}


def _run(
    model: ir.Model,
    feeds: Sequence[Mapping[str, Array]],
    inner: Sequence[str],
    ends: Sequence[str],
    pass_: str,
) -> Iterator[dict[str, Array]]:
    """Yield values and outputs of a model by name, sample by sample."""
    try:
        session, weights = start_beside(model, inner)
        asked = [*inner, *ends]
        for feed in feeds:
            given = {name: np.asarray(value) for name, value in feed.items()}
            outputs = session.run(asked, given) if asked else []
            yield dict(zip(asked, outputs, strict=True))
        del weights  # they had to live as long as the session
    except PassError:
        raise
    except Exception as error:  # those of ONNX Runtime have no common class
        text = " ".join(str(error).split())[:300]
        raise PassError(
            f"{pass_}: ONNX Runtime does not run the model on the data: {text}",
            help="each sample needs every input of the model by name, in its type and shape",
        ) from error


def _join_ranges(ranges: Iterable[tuple[str, Array]]) -> dict[str, Array]:
    """Return one range for each name."""
    found: dict[str, Array] = {}
    for name, ends in ranges:
        low, high = found.get(name, ends)
        found[name] = np.array([min(low, ends[0]), max(high, ends[1])], np.float32)
    return found
