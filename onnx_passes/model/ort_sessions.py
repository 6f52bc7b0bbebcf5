"""Sessions of ONNX Runtime, and barriers that make it round as the model says.

This is the one place that opens sessions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.model import walk
from onnx_passes.model.copy import copy_model

if TYPE_CHECKING:
    import onnxruntime


Optimization = Literal["none", "basic", "extended", "all"]
Providers = Sequence[tuple[str, Mapping[str, str]]]

CPU = "CPUExecutionProvider"
_LEVELS: dict[Optimization, str] = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
FATAL_ONLY = 4  # errors reach us as exceptions; logged too, they would show twice
_DISABLE_PREPACKING = "session.disable_prepacking"
_FILES_FOLDER = "session.model_external_initializers_file_folder_path"
_KEEP_WEIGHTS = {
    "optimization.constant_folding_max_output_size_in_bytes": str(1 << 20),
    "optimization.disable_specified_optimizers": (
        "NchwcTransformer;ConvBNFusion;ConvMulFusion;FuseFp16InitializerToFp32NodeTransformer"
    ),
}
"""Settings under which optimizations copy no large weight."""


def session_options(
    optimization: Optimization = "none", *, threads: int = 1, prepacking: bool = False
) -> onnxruntime.SessionOptions:
    """Return options of a session that runs nodes one after the other.

    ``threads`` are those within a node; 0 leaves the number to ONNX Runtime. ``prepacking``
    lets kernels copy weights into layouts of their own. Such kernels round otherwise in the
    last bits.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    level = _LEVELS[optimization]
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = FATAL_ONLY
    options.add_session_config_entry(_DISABLE_PREPACKING, str(int(not prepacking)))
    return options


def map_files(options: onnxruntime.SessionOptions, folder: str, *, copies: bool) -> None:
    """Let a session map weights from files; with ``copies``, optimizations may add others."""
    import onnxruntime as ort

    options.add_session_config_entry(_FILES_FOLDER, folder)
    # In its own order, it computes all weights that are stored as integers or halves
    # before the first product: in float32, they may not fit into memory together.
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    for entry, text in () if copies else _KEEP_WEIGHTS.items():
        options.add_session_config_entry(entry, text)


def open_session(
    proto: onnx.ModelProto,
    options: onnxruntime.SessionOptions | None = None,
    providers: Providers | None = ((CPU, {}),),
) -> onnxruntime.InferenceSession:
    """Open a session, on one thread of the CPU and as the model is written by default.

    Without ``providers``, ``options`` must name them. If ONNX Runtime does not load the model,
    it raises errors that have no common class.
    """
    import onnxruntime as ort

    options = session_options() if options is None else options
    given = {} if providers is None else {"providers": [(n, dict(o)) for n, o in providers]}
    return ort.InferenceSession(proto.SerializeToString(), options, **given, enable_fallback=0)


Types = dict[str, set[ir.DataType]]
"""Types by name of the value; values of nested graphs may have the same name."""

LOW = frozenset(
    dtype
    for dtype in ir.DataType
    if dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) or dtype.name.startswith("FLOAT8")
)
"""The types below float32 that have a barrier."""

_LENGTH = 2
"""Identity nodes in a row that make a barrier."""
_NEWEST_OPSET = 21
"""Opset of Identity in a graph that has no operator of the standard domain."""
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def add_barriers(
    model: ir.Model, infer: Callable[[ir.Model], Types] | None = None
) -> ir.Model:
    """Return a model in which ONNX Runtime rounds each value below float32.

    See ``onnx_passes.runtime.engine_models.insert_barriers``. ``infer`` says what is known of
    the types of values that have none. The result is the model itself if it needs no barrier,
    else a copy that shares its tensors.
    """
    low = _has_low_values(model)
    if not low and not any(_parts_casts(value, {}) for value in _results(model)):
        return model
    types = {} if infer is None else infer(model)
    copy = copy_model(model)
    # All of them are chosen first, because barriers part Casts.
    chosen = [
        v for v in _results(copy) if _parts_casts(v, types) or (low and _is_low(v, types))
    ]
    if not chosen:
        return model
    names = walk.names_in(copy)
    for value in chosen:
        _add_barrier(value, names)
    for graph in (copy.graph, *(function.graph for function in copy.functions.values())):
        if "" not in graph.opset_imports:
            graph.opset_imports[""] = copy.opset_imports.get("", _NEWEST_OPSET)
    return copy


def _results(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the results of nodes that some node reads; Constants have none."""
    for node in walk.all_nodes(model):
        if node.op_identifier() != ("", "Constant", ""):
            yield from (v for v in node.outputs if v.name and v.uses())


def _is_low(value: ir.Value, types: Types) -> bool:
    """Whether a value may be below float32."""
    if value.type is not None:
        return value.dtype in LOW and isinstance(value.type, ir.TensorType)
    found = types.get(str(value.name))
    return bool(found & LOW) if found else _may_be_low(value)


def _may_be_low(value: ir.Value) -> bool:
    """Whether a value of unknown type, as in a function, may be below float32."""
    producer = value.producer()
    assert producer is not None, "only results of nodes are asked for"
    if _is_cast(producer) and (target := _target(producer)) is not None:
        return target in LOW
    # Identity knows neither int4 nor, before opset 14, a sequence.
    operator = producer.op_type
    return "Sequence" not in operator and operator not in ("Optional", "QuantizeLinear")


def _parts_casts(value: ir.Value, types: Types) -> bool:
    """Whether ONNX Runtime may remove the Cast that makes a value, and its rounding with it.

    It does so if that Cast loses digits and each reader is a Cast to a type that is narrower.
    """
    producer = value.producer()
    if producer is None or not _is_cast(producer):
        return False
    after = _target(producer)
    if after is not None and all(
        _keeps_all(before, after) for before in types_of(producer.inputs[0], types)
    ):
        return False
    readers = [usage.node for usage in value.uses()]
    return any(_is_cast(node) and _narrows(after, _target(node)) for node in readers)


def types_of(value: ir.Value | None, types: Types) -> set[ir.DataType | None]:
    """Return the types that a value may have; None among them if one is unknown."""
    if value is None or value.dtype is not None:
        return {None if value is None else value.dtype}
    return {*types.get(str(value.name), {None})}


def _keeps_all(before: ir.DataType | None, after: ir.DataType) -> bool:
    if before is None:
        return False
    if ir.DataType.STRING in (before, after):
        return True
    if before.is_integer() and after.is_floating_point() and before.bitwidth == 64:
        return False
    return bool(np.can_cast(before.numpy(), after.numpy(), "safe"))


def _narrows(before: ir.DataType | None, after: ir.DataType | None) -> bool:
    if before is None or after is None:
        return True
    if ir.DataType.STRING in (before, after):
        return False
    widens = after.is_floating_point() and not before.is_floating_point()
    return after.bitwidth <= before.bitwidth and not widens


def _is_cast(node: ir.Node) -> bool:
    return node.op_identifier() == ("", "Cast", "")


def _target(cast: ir.Node) -> ir.DataType | None:
    return walk.named_type(cast.attributes.get("to"))


def _has_low_values(model: ir.Model) -> bool:
    """Whether a value below float32 can occur: declared, in a tensor, or by an attribute."""
    return (
        any(
            value.dtype in LOW
            for graph in walk.all_graphs(model)
            for value in walk.values_of(graph)
        )
        or any(tensor.dtype in LOW for tensor in walk.all_tensors(model))
        or any(_names_low_type(node) for node in walk.all_nodes(model))
    )


def _names_low_type(node: ir.Node) -> bool:
    # The attribute of a function's call may have any name.
    every = node.domain not in ("", "ai.onnx")
    for attribute in node.attributes.values():
        if attribute.type != ir.AttributeType.INT:
            continue
        if attribute.is_ref():
            if attribute.name in _TYPE_ATTRIBUTES:
                return True
        elif every or attribute.name in _TYPE_ATTRIBUTES:
            number = attribute.as_int()
            if any(number == dtype.value for dtype in LOW):
                return True
    return False


def _add_barrier(value: ir.Value, names: set[str]) -> None:
    producer = value.producer()
    assert producer is not None, "only results of nodes have barriers"
    assert producer.graph is not None, "the walk yields nodes of graphs"
    readers = list(value.uses())
    chain: list[ir.Node] = []
    end = value
    for _ in range(_LENGTH):
        name = _new_name(str(value.name), names)
        made = ir.Value(name=name, type=value.type, shape=value.shape)
        chain.append(ir.Node("", "Identity", [end], outputs=[made], name=name))
        end = made
    for reader, index in readers:
        reader.replace_input_with(index, end)
    producer.graph.insert_after(producer, chain)


def _new_name(base: str, names: set[str]) -> str:
    candidates = (f"{base}_barrier{number}" for number in itertools.count())
    name = next(candidate for candidate in candidates if candidate not in names)
    names.add(name)
    return name
