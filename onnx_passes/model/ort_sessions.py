"""Sessions of ONNX Runtime: the one place that opens them.

Scripts of reproducers open their own, since they run without this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import onnx

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
_FATAL_ONLY = 4  # errors reach us as exceptions; logged too, they would show twice
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

    Args:
        optimization: How much ONNX Runtime may rewrite the graph.
        threads: Threads within a node; 0 leaves the number to ONNX Runtime.
        prepacking: Whether kernels may copy weights into layouts of their own. Such kernels
            round otherwise in the last bits.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    level = _LEVELS[optimization]
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL_ONLY
    options.add_session_config_entry(_DISABLE_PREPACKING, str(int(not prepacking)))
    return options


def map_files(options: onnxruntime.SessionOptions, folder: str, *, copies: bool) -> None:
    """Let a session map weights from files.

    Args:
        options: Options of the session.
        folder: The folder of the files.
        copies: Whether optimizations may make other weights of them, which take memory.
    """
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

    Args:
        proto: The model.
        options: Options of the session; None for those of :func:`session_options`.
        providers: Execution providers with their options; None if ``options`` name them.

    Raises:
        Exception: ONNX Runtime does not load the model; its errors have no common class.
    """
    import onnxruntime as ort

    options = session_options() if options is None else options
    given = {} if providers is None else {"providers": [(n, dict(o)) for n, o in providers]}
    return ort.InferenceSession(proto.SerializeToString(), options, **given, enable_fallback=0)
