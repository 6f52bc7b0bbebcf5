"""A model through TensorRT's parser: plugins that it finds, and nodes that it refuses.

Plugins and refusals are listed in a child process, because the parser and plugins may crash.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import onnx_ir as ir

from onnx_passes.errors import (
    ConfigError,
    EngineCrashedError,
    EngineError,
    EngineUnavailableError,
    ModelError,
    UnsupportedModelError,
)
from onnx_passes.model.formats import inlined
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.model.walk import tensors_replaced, weight_bytes
from onnx_passes.plain import Foreign
from onnx_passes.runtime.isolated import Child, ChildSpec, call
from onnx_passes.runtime.tensorrt.bindings import (
    BuildLog,
    Package,
    install_help,
    installed_version,
    load_bindings,
    network_flags,
)
from onnx_passes.runtime.tensorrt.cuda import gpu_count

_loaded: set[str] = set()


def load_plugins(trt: ModuleType, log: BuildLog, paths: Sequence[str]) -> None:
    """Register NVIDIA's own plugins, and those of libraries; each library once a process.

    A ConfigError names a library that is not there, or registers nothing.
    """
    trt.init_libnvinfer_plugins(log.listener, "")
    registry = trt.get_plugin_registry()
    for path in paths:
        place = str(Path(path).absolute())
        if place in _loaded:
            continue
        if not Path(place).is_file():
            raise ConfigError(f"plugins: there is no file {path}")
        try:
            handle = registry.load_library(place)
        except RuntimeError as error:
            raise ConfigError(f"plugins: {path} cannot be loaded: {error}") from error
        if handle is None:
            said = "; ".join(log.errors) or "its plugins may be registered already"
            raise ConfigError(
                f"plugins: {path} registers nothing: {said}",
                help="install what it needs, or build it for this version of TensorRT",
            )
        _loaded.add(place)


_LIMIT = (2 << 30) - (64 << 20)
_MOST = 3


def parse(parser: Foreign, model: ir.Model, *, limit: int = _LIMIT) -> None:
    """Hand a model to the parser, as bytes, or as a file beyond 2 GiB.

    ``limit`` is in bytes. Raises UnsupportedModelError with nodes and reasons, and EngineError
    if the model cannot be serialised.
    """
    try:
        if weight_bytes(model) < limit:
            with tensors_replaced(model, inlined):
                data = ir.to_proto(model).SerializeToString()
            parsed = parser.parse(data)
        else:
            with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
                path = Path(folder) / "model.onnx"
                save_model(model, path, external_data="external")
                parsed = parser.parse_from_file(str(path))
    except (ir.serde.SerdeError, ModelError, OSError, ValueError, TypeError) as error:
        raise EngineError(f"the model cannot be serialised: {error}") from error
    if not parsed:
        raise _refusal(parser, model)


def _refusal(parser: Foreign, model: ir.Model) -> UnsupportedModelError:
    reasons = list(dict.fromkeys(_describe(error, model) for error in errors_of(parser)))
    rest = f"; and {len(reasons) - _MOST} more" if len(reasons) > _MOST else ""
    return UnsupportedModelError(
        "; ".join(reasons[:_MOST]) + rest or "the parser gives no reason"
    )


def errors_of(parser: Foreign) -> list[Foreign]:
    """Return why a parser refused the model that it was given last."""
    return [parser.get_error(index) for index in range(parser.num_errors)]


def reason_of(error: Foreign) -> str:
    """Return the parser's own words, and its code such as UNSUPPORTED_NODE."""
    # The code of the bindings is an enumeration: ErrorCode.UNSUPPORTED_NODE.
    return f"{error.desc().strip()} ({str(error.code()).rpartition('.')[2]})"


def _describe(error: Foreign, model: ir.Model) -> str:
    stack = list(error.local_function_stack())
    inside = f" in function {' > '.join(stack)}" if stack else ""
    operator = error.node_operator()
    if not operator:
        return reason_of(error)
    name = error.node_name() or _outputs(error.node(), operator, model)
    return f"node {name!r} ({operator}){inside}: {reason_of(error)}"


def _outputs(index: int, operator: str, model: ir.Model) -> str:
    """Name a node that has no name by what it computes."""
    if 0 <= index < len(model.graph) and model.graph[index].op_type == operator:
        return ", ".join(str(value.name) for value in model.graph[index].outputs)
    return f"#{index}"


@dataclass(frozen=True)
class Refused:
    """What the parser says against a model.

    ``node`` is in the main graph; empty if the parser does not say. ``reason`` is in its
    words.
    """

    node: str
    reason: str


def parser_refusals(
    package: Package, models: Sequence[ir.Model], *, seconds: float | None = 600.0
) -> list[list[Refused]]:
    """Ask the parser about models; nothing is built.

    The answers of ``supports_operator`` and of the groups of ``supports_model_v2`` are not
    used: they differ from what ``parse`` does. Nodes of the main graphs need unique names.
    Each model may take ``seconds``; one that ends the parser's process is refused without a
    node. The result is empty for a model that is taken. Raises EngineUnavailableError,
    EngineTimeoutError, EngineError and ModelError.
    """
    if installed_version(package) is None:
        raise EngineUnavailableError(f"{package} is not installed", help=install_help(package))
    if package == "tensorrt" and not gpu_count():
        raise EngineUnavailableError(
            "tensorrt starts only beside a GPU, and this machine has none",
            help="use tensorrt-rtx, whose parser needs none",
        )
    found: list[list[Refused]] = []
    child: Child | None = None
    with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
        path = Path(folder, "asked.onnx")
        try:
            for model in models:
                save_model(model, path)
                if child is None or not child.alive:
                    child = Child(ChildSpec(package))
                found.append(_ask(child, package, path, seconds))
        finally:
            if child is not None:
                child.end()
    return found


def _ask(child: Child, package: Package, path: Path, seconds: float | None) -> list[Refused]:
    words = package, str(path)
    try:
        answers = call(child, read_refusals, *words, while_="parsing", seconds=seconds)
    except EngineCrashedError as error:
        return [Refused("", error.message)]
    return [Refused(**each) for each in answers]


def read_refusals(package: Package, path: str) -> list[dict[str, str]]:
    """Ask the parser in this process about a file; see :func:`parser_refusals`."""
    trt = load_bindings(package)
    return [asdict(each) for each in _find_refusals(trt, load_model(path).model)]


def _find_refusals(trt: ModuleType, model: ir.Model) -> list[Refused]:
    log = BuildLog(trt, "error")
    builder = trt.Builder(log.listener)
    network = builder.create_network(network_flags(trt))
    parser = trt.OnnxParser(network, log.listener)
    try:
        parse(parser, model)
    except UnsupportedModelError as error:
        names = {node.name for node in model.graph}
        found = [_read_error(each, names) for each in errors_of(parser)]
        return list(dict.fromkeys(found)) or [Refused("", error.message)]
    return []


def _read_error(error: Foreign, names: set[str | None]) -> Refused:
    # What is wrong in a subgraph or a function is that of the node that holds it, which the
    # stack begins with: "name (Operator)".
    stack = list(error.local_function_stack())
    node = stack[0].rpartition(" (")[0] if stack else error.node_name()
    where = " > ".join(stack[1:]) or "its body"
    inside = f"{error.node_operator()} in {where}: " if stack else ""
    return Refused(node if node in names else "", f"{inside}{reason_of(error)}")
