"""A model, and samples, however the caller holds them."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.load import load_model, load_proto, read_dynamic_dims
from onnx_passes.ops.bodies import QONNX_ALIASES, attach_to_model, has_body
from onnx_passes.ops.bodies.operator_bodies import CHANNELS_LAST
from onnx_passes.runtime.engine_base import Data, Feeds

AnyModel: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto | ir.Model"
"""A path, ONNX's own model, or onnx-ir's."""


def take_model(model: AnyModel) -> tuple[ir.Model, str, list[str]]:
    """Return a model that may be changed, its name, and what was changed to read it.

    The original stays as it is; weights are shared with it. Raises ModelError if the file
    cannot be read, and UsageError if it is not a model.
    """
    if isinstance(model, str | os.PathLike):
        loaded = load_model(Path(model))
        return loaded.model, os.fspath(model), list(loaded.notes)
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        name = model.graph.name or "model"
        own, notes = load_proto(copy, Path(name))
        return own, name, notes
    if isinstance(model, ir.Model):
        own = copy_model(model)
    else:
        raise UsageError(
            f"{type(model).__name__} is not a model",
            help="give a path, an onnx.ModelProto or an onnx_ir.Model",
        )
    return own, own.graph.name or "model", read_dynamic_dims(own)


def take_samples(inputs: Feeds | Sequence[Feeds], model: ir.Model) -> list[Feeds]:
    """Return samples as lists of arrays, whatever form of numbers the caller gives.

    Numbers, and lists of numbers, become arrays of the type that the input declares. Raises
    ReferenceDataError if a list is not a form of an array, or a number does not fit its type,
    and UsageError for what is not a mapping.
    """
    given = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    if not all(isinstance(sample, Mapping) for sample in given):
        raise UsageError(
            f"the inputs are {type(inputs).__name__}, not arrays by name",
            help="give a mapping of input names to arrays, or a list of such mappings",
        )
    types = {str(v.name): v.type for v in model.graph.inputs}
    return [
        {name: _array(name, value, types.get(name)) for name, value in sample.items()}
        for sample in given
    ]


def _array(name: str, value: Data, type_: ir.TypeProtocol | None) -> Data:
    numbers = isinstance(value, bool | int | float | list | np.generic)
    if not numbers or not isinstance(type_, ir.TensorType):
        return value
    try:
        return np.asarray(value, type_.dtype.numpy())
    except (TypeError, ValueError, OverflowError) as error:
        raise ReferenceDataError(
            f"input {name!r} is not an array: {error}",
            help="give numbers of one type, in lists of equal lengths",
        ) from error


def with_functions(model: ir.Model) -> ir.Model:
    """Return a model that any engine loads: operators of one's own get their functions.

    Engines know neither this package's operators nor those that a user has registered. QONNX's
    stay as they are, unless the file needs functions in any case. The model that is given
    stays as it is.
    """
    known = (*QONNX_ALIASES, CHANNELS_LAST)
    if not any(
        has_body(node.domain, node.op_type) and node.domain not in known
        for node in model.graph.all_nodes()
    ):
        return model
    complete = copy_model(model)
    attach_to_model(complete)
    return complete


def notebook_frame(page: str) -> str:
    """Return a frame that shows a page in a notebook."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="" title="report" '
        'style="width:100%;height:40rem;border:1px solid #dfe4ea"></iframe>'
    )
