"""Passes that change numbers on purpose: what they may lose if nobody says so."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.configs.resolve import resolve
from onnx_passes.configs.resolved import PassStep
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.contracts import Metric
from onnx_passes.errors import ConfigError
from onnx_passes.model.walk import all_nodes

PRECISIONS = {
    "float16": "convert-float16",
    "int8": "quantize-dynamic",
    "int8-static": "quantize-static",
    "int4": "quantize-weights{weights=int4,block=32}",
}
"""The pass of a precision."""

_ON_DATA = {
    *("correct-biases", "quantize-static", "smooth-activations", "tune"),
    *("quantize-weights-adaround", "quantize-weights-gptq"),
}
"""Passes that need data wherever there is a layer."""
_LAYERS = {"Conv", "Gemm", "MatMul"}
_LEAST_COSINE, _LEAST_COSINE_4_BITS, _LEAST_AGREEMENT = 0.99, 0.95, 0.99
_FEW_BITS = {"int4", "uint4", "int2", "uint2"}


def with_budget(
    config: PipelineConfig, model: ir.Model, *, given: bool = False
) -> tuple[PipelineConfig, list[str]]:
    """Return a pipeline with a budget for its passes that promise metrics, and a note of it.

    Nothing changes if the pipeline has a budget, or no such pass, or checks nothing.

    Args:
        config: The pipeline.
        model: The model, for the form of its first output.
        given: Whether there are samples beside those of the pipeline.

    Raises:
        ConfigError: A pass of it needs data, and there is none.
    """
    given = given or config.reference.inputs is not None
    data = given or config.reference.data is not None
    steps = resolve(config).passes
    lacking = [s for s in steps if s.cls.name in _ON_DATA and not s.options.get("data")]
    if lacking and not data and any(n.op_type in _LAYERS for n in all_nodes(model)):
        raise ConfigError(
            f"{lacking[0].cls.name} needs data, and there is none",
            where=lacking[0].where,
            help="give --calib FOLDER, or reference.inputs in the pipeline file",
        )
    if not config.verify.enabled or config.verify.metrics or config.verify.accuracy:
        return config, []
    found = [step for step in steps if Metric() in step.cls.contracts()]
    if not found:
        return config, []
    if not any(
        value.dtype is None or value.dtype.is_floating_point() for value in model.graph.outputs
    ):
        return config, ["no output is of floats, which a budget could hold: give --metric"]
    least = _LEAST_COSINE_4_BITS if any(map(_has_few_bits, found)) else _LEAST_COSINE
    ranges = {"cosine": (least, 1.0)}
    told = f"the cosine of each output and sample is at least {least:g}"
    first = next(iter(model.graph.outputs), None)
    shape = None if first is None else first.shape
    if given and shape is not None and len(shape) == 2:
        ranges["top_1_agreement"] = (_LEAST_AGREEMENT, 1.0)
        told += f", and the largest class is the same in {_LEAST_AGREEMENT:.0%} of the rows"
    verify = config.verify.model_copy(update={"metrics": ranges})
    names = ", ".join(dict.fromkeys(step.cls.name for step in found))
    note = f"budget of {names}, as none is given: {told}; --metric NAME=LOW:HIGH sets another"
    return config.model_copy(update={"verify": verify}), [note]


def _has_few_bits(step: PassStep) -> bool:
    return bool(_FEW_BITS & {value for value in step.options.values() if type(value) is str})
