"""Models without their weights, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import ModelError, UsageError
from onnx_passes.model.digest import tensor_digest
from onnx_passes.model.walk import all_tensors, graphs_within
from onnx_passes.passes.common.large_tensors import Scratch
from onnx_passes.passes.constants import constant_of
from onnx_passes.plain import PlainDict

KEY = "onnx_passes.stripped_weights"
"""Metadata of a model that says what its weights were."""

LEAST = 1024
"""Bytes from which a weight is removed: smaller ones are shapes, axes and scales."""

_AT_ONCE = 1 << 20
"""Elements that are computed with at once."""

_IN_MEMORY = 1 << 26
"""Bytes of random weights that stay in memory; more go to a temporary file."""

_SUPPORTED = frozenset(
    {
        *(ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BOOL),
        *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
        *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
    }
)


def strip_weights(model: ir.Model, least: int = LEAST) -> list[str]:
    """Replace each large weight by a ConstantOfShape that gives the mean.

    Weights are initializers and Constant nodes, in bodies and functions too. The model stays
    valid and can be run. Its metadata notes type, shape, digest, mean, standard deviation and
    range of each weight, and :func:`restore_weights` reads them.

    Args:
        model: The model, changed in place.
        least: Bytes from which a weight is removed.

    Returns:
        The names of the weights.

    Raises:
        UsageError: The model was stripped before.
        ModelError: Weights cannot be read.
    """
    if KEY in model.metadata_props:
        raise UsageError("the weights of this model were removed before")
    noted: dict[str, PlainDict] = {}
    for key, value, tensor in list(_weights(model)):
        # An input with a default is for callers to override.
        plain = tensor.dtype in _SUPPORTED and not value.is_graph_input()
        if plain and tensor.nbytes >= least:
            noted[key] = _describe(tensor)
            if value.producer() is not None:
                noted[key]["node"] = True
            _replace(value, tensor, noted[key]["mean"])
    model.metadata_props[KEY] = json.dumps(noted)
    return list(noted)


def large_tensors(model: ir.Model, least: int = LEAST) -> list[str]:
    """Return the names of tensors of a number of bytes or more that a file would hold."""
    found = (tensor for tensor in all_tensors(model) if tensor.nbytes >= least)
    return [tensor.name or "a tensor without a name" for tensor in found]


def restore_weights(
    model: ir.Model, source: ir.Model | None = None, *, seed: int = 0
) -> list[str]:
    """Put weights back: those of the model that was stripped, or random ones like them.

    Args:
        model: The stripped model, changed in place.
        source: Where the weights are; None for random ones of the same mean, standard
            deviation and range.
        seed: Of the random ones.

    Returns:
        The names of the weights.

    Raises:
        UsageError: The model was not stripped.
        ModelError: The source has other weights.
    """
    text = model.metadata_props.get(KEY)
    if text is None:
        raise UsageError(
            "no weights were removed from this model", help="onnx-passes strip-weights does"
        )
    noted: dict[str, PlainDict] = json.loads(text)
    held = {} if source is None else {key: tensor for key, _, tensor in _weights(source)}
    rng = np.random.default_rng(seed)
    # Weights of the source stay in its files.
    scratch = Scratch(model, always=source is None and _bytes(noted) > _IN_MEMORY)
    for owner, graph in _graphs(model):
        for node in list(graph):
            key = f"{owner}{node.outputs[0].name}" if node.op_type == "ConstantOfShape" else ""
            if key in noted:
                array = (
                    _drawn(noted[key], rng)
                    if source is None
                    else _check(key, noted[key], held.get(key))
                )
                tensor = scratch.keep(ir.tensor(array, name=node.outputs[0].name))
                _restore(graph, node, tensor, as_node="node" in noted[key])
    del model.metadata_props[KEY]
    return list(noted)


def _graphs(model: ir.Model) -> Iterator[tuple[str, ir.Graph]]:
    """Yield all graphs, each with a prefix for names of functions."""
    for graph in graphs_within(model.graph):
        yield "", graph
    for function in model.functions.values():
        for graph in graphs_within(function.graph):
            yield f"{'::'.join(function.identifier())}/", graph


def _weights(model: ir.Model) -> Iterator[tuple[str, ir.Value, ir.TensorProtocol]]:
    """Yield initializers and results of Constant nodes, each with a key and its tensor."""
    for owner, graph in _graphs(model):
        values = [*graph.initializers.values(), *(v for n in graph for v in n.outputs[:1])]
        for value in values:
            node = value.producer()
            tensor = value.const_value if node is None else None
            if node is not None and (node.domain, node.op_type) == ("", "Constant"):
                tensor = constant_of(value)
            if tensor is not None:
                yield f"{owner}{value.name}", value, tensor


def _describe(tensor: ir.TensorProtocol) -> PlainDict:
    array = tensor.numpy()
    some = array.reshape(-1)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        some = some[np.isfinite(some)]
    some = some if some.size else np.zeros(1)
    exact = some.mean(dtype=np.float64)
    mean = round(float(exact)) if array.dtype.kind in "iub" else float(exact)
    return {
        "dtype": tensor.dtype.name,
        "shape": list(array.shape),
        "sha256": tensor_digest(tensor).hex(),
        "mean": mean,
        "std": float(some.std(dtype=np.float64)),
        "min": float(some.min()),
        "max": float(some.max()),
    }


def _replace(value: ir.Value, tensor: ir.TensorProtocol, mean: float) -> None:
    name, node, graph = str(value.name), value.producer(), value.graph
    shape = np.array(tensor.shape.numpy(), np.int64)
    filled = np.array([mean]).astype(tensor.dtype.numpy())
    sizes = ir.node("Constant", [], {"value": ir.tensor(shape)})
    made = ir.node("ConstantOfShape", [sizes.outputs[0]], {"value": ir.tensor(filled)})
    sizes.outputs[0].name = f"{name}_shape"
    made.outputs[0].type, made.outputs[0].shape = value.type, value.shape
    value.replace_all_uses_with(made.outputs[0], replace_graph_outputs=True)
    home = graph if node is None else node.graph
    assert home is not None, "it stands somewhere"
    if node is not None:
        home.remove(node, safe=True)
    elif graph is not None:
        del graph.initializers[name]
    made.outputs[0].name = name
    for new in (made, sizes):
        if len(home):
            home.insert_before(home[0], new)
        else:
            home.append(new)


def _restore(
    graph: ir.Graph, node: ir.Node, tensor: ir.TensorProtocol, *, as_node: bool
) -> None:
    old = node.outputs[0]
    name, old.name = old.name, None
    if as_node:
        constant = ir.node("Constant", [], {"value": tensor})
        graph.insert_before(node, constant)
        new = constant.outputs[0]
        new.name, new.type = name, ir.TensorType(tensor.dtype)
    else:
        new = ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype))
        graph.register_initializer(new)
    new.shape = ir.Shape(tensor.shape.numpy())
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    sizes = node.inputs[0]
    graph.remove(node, safe=True)
    maker = None if sizes is None else sizes.producer()
    if maker is not None and sizes is not None and not sizes.uses():
        graph.remove(maker, safe=True)


def _check(name: str, noted: PlainDict, tensor: ir.TensorProtocol | None) -> Array:
    if tensor is None:
        raise ModelError(f"the source has no weight {name!r}")
    if tensor_digest(tensor).hex() != noted["sha256"]:
        raise ModelError(
            f"the weight {name!r} of the source is not the one that was removed",
            help="restore from the model that was stripped, or leave the source out",
        )
    found: Array = tensor.numpy()
    return found


def _drawn(noted: PlainDict, rng: np.random.Generator) -> Array:
    dtype = ir.DataType[noted["dtype"]].numpy()
    found = np.empty(math.prod(noted["shape"]), dtype)
    for start in range(0, len(found), _AT_ONCE):
        part = found[start : start + _AT_ONCE]
        drawn = rng.normal(noted["mean"], noted["std"], len(part))
        drawn = np.clip(drawn, noted["min"], noted["max"])
        part[:] = np.rint(drawn) if dtype.kind in "iub" else drawn
    return found.reshape(noted["shape"])


def _bytes(noted: dict[str, PlainDict]) -> int:
    return sum(
        math.prod(one["shape"]) * ir.DataType[one["dtype"]].bitwidth // 8
        for one in noted.values()
    )
