"""``python -m benchmarks.peers.backend_judge``: what became of backend test models.

Reads ``[id, result file]``, a line each, and answers each with an outcome and why.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import onnx
import onnx_ir as ir

from benchmarks.peers.judge import ports_of, same_ports
from benchmarks.peers.worker import serve
from onnx_passes.contracts import Tolerance
from onnx_passes.errors import EngineError, OnnxPassesError
from onnx_passes.model.load import load_model
from tests.corpus.backend_models import load
from tests.corpus.examine import differences, engine_for, is_random, outputs


def judge(question: list[str]) -> tuple[str, str]:
    """Hold a result against its original, on the engine that runs the original."""
    case = load(question[0])
    path = Path(question[1])
    try:
        proto = onnx.load(path)
        onnx.checker.check_model(proto)
    except Exception as error:  # whatever reading or the checker raises makes it invalid
        return "invalid", str(error)[:300]
    if not same_ports(ports_of(case.model), ports_of(proto)):
        return "interface", f"{ports_of(case.model)} became {ports_of(proto)}"[:300]
    original = ir.from_proto(case.model)
    engine, reason = engine_for(original, case)
    if engine is None:
        return "unchecked", reason[:300]
    if is_random(engine, original, case):
        return "unchecked", "random"
    before = outputs(engine, original, case)
    try:
        after = outputs(engine, load_model(path).model, case)
    except (EngineError, OnnxPassesError) as error:
        return "invalid", f"it no longer runs: {error}"[:300]
    wrong = differences(before, after, Tolerance())
    return ("changed", wrong[:300]) if wrong else ("kept", "")


def main() -> None:
    """Answer until there are no more questions."""
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    serve(judge)


if __name__ == "__main__":
    main()
