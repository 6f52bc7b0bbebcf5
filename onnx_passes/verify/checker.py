"""Ask onnx's checker about a model, without the weights and without its noise."""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx
import onnx_ir as ir

from onnx_passes.runtime.engine_models import split_weights
from onnx_passes.verify.checked_nodes import CheckedNodes

# A location that starts so is not looked for on disk by the checker.
_NO_FILE = "#"

_UNNAMED = "output "
_FIRST_FREE_INITIALIZERS = 4


def complaints(
    model: ir.Model,
    *,
    full: bool = False,
    lenient: bool = False,
    known: CheckedNodes | None = None,
) -> list[str]:
    """Return what the checker has to say, one sentence each; empty if nothing.

    Args:
        model: A model whose names and order are sound.
        full: Whether types and shapes are inferred, and contradictions count.
        lenient: Whether to accept what engines accept: outputs without a type or shape, and
            domains other than ONNX's own without an opset import.
        known: What it has accepted before, where it need not say it again; None for nothing.
            Asked in full it always says all.
    """
    if known is not None and lenient and not full and known.accept(model, _ask_leniently):
        return []
    try:
        proto = split_weights(model).proto
    except (ir.serde.SerdeError, ValueError, TypeError) as error:
        return [f"the model cannot be written as ONNX: {_one_line(str(error))}"]
    _name_nodes(proto.graph)
    if lenient:
        _complete(proto, model.graph.all_nodes())
    _release(proto)
    try:
        onnx.checker.check_model(proto, full_check=full)
    except onnx.checker.ValidationError as error:
        return [_validation(str(error))]
    except onnx.shape_inference.InferenceError as error:
        return _inference(str(error))
    except (ValueError, RuntimeError) as error:  # what it cannot read, it says otherwise
        return [_one_line(str(error))]
    return []


def _ask_leniently(proto: onnx.ModelProto) -> None:
    """Ask about a part of a model; raise what the checker raises."""
    _complete(proto, proto.graph.node)
    _release(proto)
    onnx.checker.check_model(proto)


def _release(proto: onnx.ModelProto) -> None:
    """Accept absent tensors, and initializers that are not inputs.

    Large constants have become initializers, which old models must list as inputs.
    """
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = _NO_FILE
    proto.ir_version = max(proto.ir_version, _FIRST_FREE_INITIALIZERS)


def _complete(
    proto: onnx.ModelProto, nodes: Iterable[ir.Node] | Iterable[onnx.NodeProto]
) -> None:
    """Remove outputs without a type or shape, and import all domains that nodes have."""
    kept = [value for value in proto.graph.output if _is_complete(value.type)]
    del proto.graph.output[:]
    proto.graph.output.extend(kept)
    domains = {node.domain for node in nodes if node.domain}
    for domain in sorted(domains - {entry.domain for entry in proto.opset_import}):
        proto.opset_import.add(domain=domain, version=1)


def _is_complete(type_: onnx.TypeProto) -> bool:
    kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        return bool(getattr(type_, kind).HasField("shape"))
    return kind is not None


def _name_nodes(graph: onnx.GraphProto) -> None:
    """Give nodes without a name one by which the user finds them."""
    for node in graph.node:
        if not node.name and node.output:
            node.name = _UNNAMED + node.output[0]
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                _name_nodes(subgraph)


def _label(name: str | None, op: str) -> str:
    if name and name.startswith(_UNNAMED):
        return f"the {op} node that computes {name.removeprefix(_UNNAMED)!r}"
    return f"node {name or ''!r} ({op})"


def _validation(text: str) -> str:
    """Shorten ``fault. ==> Context: Bad node spec for node. Name: n OpType: Op``."""
    fault, *contexts = text.split("==> Context:")
    fault = _one_line(fault).rstrip(".")
    fault = re.sub(
        r"^Node\([^)]*\) with schema\((.*?)\) has", r"under schema \1 it has", fault
    )
    nodes = [
        _label(name, op)
        for context in contexts
        for name, op in re.findall(r"Name: (.{0,999}?) ?OpType: (\w+)", context)
    ]
    return f"{nodes[0]}: {fault}" if nodes else fault


def _inference(text: str) -> list[str]:
    text = text.removeprefix("[ShapeInferenceError] ").removeprefix("Inference error(s): ")
    found = []
    for line in text.splitlines():
        # Follows from the fault that left the type unknown.
        if not line.strip() or "expected to have type but instead is null" in line:
            continue
        match = re.match(r"\(op_type:(\w+)(?:, node name: (.*?))?\): (?:\[\w+\] )?(.*)", line)
        if match is None:
            found.append(_one_line(line))
            continue
        op, name, fault = match.groups()
        if "elem type" in fault:
            fault = re.sub(r"\((\d+)\)", _element, fault)
        found.append(f"{_label(name, op)}: {_one_line(fault)}")
    return found or [_one_line(text)]


def _element(match: re.Match[str]) -> str:
    number = int(match[1])
    known = number in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(number).lower() if known else match[0]


def _one_line(text: str) -> str:
    return " ".join(text.split())
