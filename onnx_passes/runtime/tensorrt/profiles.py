"""Optimisation profiles: the shapes that dynamic inputs may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.tensorrt.binding_types import (
    TrtBuilder,
    TrtConfig,
    TrtNetwork,
    TrtProfile,
    TrtTensor,
)
from onnx_passes.runtime.tensorrt.engine_options import Dims, Profile

_LONGEST_SHAPE = 8
"""Elements up to which an integer input may be one that decides shapes, as TensorRT has it."""


def profiles_of(model: ir.Model, samples: Sequence[Feeds]) -> PlainDict:
    """Return profiles that hold all samples, as a pipeline file spells them.

    Args:
        model: The model; dimensions that are fixed in it need no profile.
        samples: Inputs by name.
    """
    found: PlainDict = {}
    for value in model.graph.inputs:
        if value.name is None or value.shape is None or value.shape.is_static():
            continue
        arrays = [feeds.get(value.name) for feeds in samples]
        shapes = [a.shape for a in arrays if isinstance(a, np.ndarray)]
        if shapes and len({len(shape) for shape in shapes}) == 1:
            columns = list(zip(*shapes, strict=True))
            found[value.name] = {
                "min": [min(column) for column in columns],
                "opt": list(shapes[0]),
                "max": [max(column) for column in columns],
            }
    return found


def values_of(model: ir.Model, samples: Sequence[Feeds]) -> PlainDict:
    """Return the values of integer inputs that may decide shapes, as profiles.

    Args:
        model: The model.
        samples: Values by input, one mapping a sample.
    """
    found: PlainDict = {}
    for value in model.graph.inputs:
        static = value.shape is not None and value.shape.is_static()
        if not static or value.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
            continue
        arrays = [a for f in samples if isinstance(a := f.get(str(value.name)), np.ndarray)]
        if arrays and arrays[0].ndim <= 1 and arrays[0].size <= _LONGEST_SHAPE:
            stacked = np.stack([np.atleast_1d(a) for a in arrays])
            found[str(value.name)] = {
                "min": stacked.min(axis=0).tolist(),
                "opt": stacked[0].tolist(),
                "max": stacked.max(axis=0).tolist(),
            }
    return found


def add_profiles(
    builder: TrtBuilder,
    network: TrtNetwork,
    config: TrtConfig,
    given: Sequence[Sequence[Profile]],
) -> None:
    """Give a config the profiles that a network needs, if it needs any.

    Args:
        builder: Creates profiles.
        network: The parsed network.
        config: Gets the profiles.
        given: Per profile shapes or values by input; those of inputs that need none are
            ignored.

    Raises:
        ConfigError: An input lacks a profile, or its profile does not fit it.
    """
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    wanting = [t for t in inputs if -1 in tuple(t.shape) or t.is_shape_tensor]
    if not wanting:
        return
    for profile in given or ((),):
        known: Mapping[str, Profile] = {one.name: one for one in profile}
        made = builder.create_optimization_profile()
        for tensor in wanting:
            if tensor.name not in known:
                kind = "values" if tensor.is_shape_tensor else "shapes"
                raise ConfigError(
                    f"input {tensor.name!r} needs a profile: its {kind} are not fixed",
                    help=f"profiles: {{{tensor.name}: {{min: [..], opt: [..], max: [..]}}}}",
                )
            _set(made, tensor, known[tensor.name])
        if config.add_optimization_profile(made) < 0:
            raise EngineError("the profile is refused: one of its ranges is empty")


def _set(made: TrtProfile, tensor: TrtTensor, profile: Profile) -> None:
    sizes = (profile.min, profile.opt, profile.max)
    if not tensor.is_shape_tensor:
        _check_shape(tensor, profile, sizes)
    setter = made.set_shape_input if tensor.is_shape_tensor else made.set_shape
    try:
        setter(tensor.name, *sizes)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"profiles.{tensor.name}: {error}") from error


def _check_shape(tensor: TrtTensor, profile: Profile, sizes: tuple[Dims, ...]) -> None:
    shape = tuple(tensor.shape)
    for size in sizes:
        fits = len(size) == len(shape) and all(
            dim in (-1, s) for dim, s in zip(shape, size, strict=True)
        )
        if not fits:
            raise ConfigError(
                f"profiles.{tensor.name}: {list(size)} does not fit its shape {list(shape)}"
            )
