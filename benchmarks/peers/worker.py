"""Run an optimiser, in its own environment: ``python worker.py TOOL SOURCE TARGET``.

Without SOURCE and TARGET it reads pairs of them from standard input, a JSON list a line, and
answers each with a line: ``ok``, or the error. So 2,000 small models take one process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Optimise = Callable[[str, str], None]

FUSIONS = tuple(
    f"fuse_{name}"
    for name in (
        *("add_bias_into_conv", "bn_into_conv", "pad_into_conv", "pad_into_pool"),
        *("matmul_add_bias_into_gemm", "transpose_into_gemm", "qkv"),
        *("consecutive_log_softmax", "consecutive_reduce_unsqueeze"),
    )
)
"""Fusions of onnxoptimizer, which onnxsim has too; its other ``fuse_`` merge two of a kind."""

NO_FUSIONS = tuple(
    f"{name}_rule"
    for name in (
        *("add_0", "sub_0", "mul_by_1", "div_by_1", "dropout_inference", "dropout_zero"),
        *("cast_cast", "no_op_cast", "collapse_slice", "collapse_slice2", "slice_split"),
        *("cast_constant_of_shape", "cast_constant_of_shape_without_value"),
        *("flatten_to_reshape", "reshape_reshape", "squeeze_reshape_1d"),
        *("materialize_reshape_shape", "no_op_expand", "unsqueeze_unsqueeze"),
        *("no_op_transpose", "transpose_transpose", "no_op_static_scatter_nd"),
        "no_op_dynamic_scatter_nd",
    )
)
"""Rules of onnxscript that do not replace operators by one of another kind."""


def onnxoptimizer(*left_out: str) -> Callable[[], Optimise]:
    def start() -> Optimise:
        import onnx
        import onnxoptimizer as library

        passes = library.get_fuse_and_elimination_passes()
        passes = [name for name in passes if name not in left_out]

        def optimise(source: str, target: str) -> None:
            onnx.save(library.optimize(onnx.load(source), passes, True), target)

        return optimise

    return start


def onnxscript() -> Optimise:
    import onnx_ir
    from onnxscript import optimizer

    def optimise(source: str, target: str) -> None:
        model = onnx_ir.load(source)
        optimizer.optimize(model)
        onnx_ir.save(model, target)

    return optimise


def onnxscript_without_fusion() -> Optimise:
    """What ``optimizer.optimize`` does, with those of its rules that remove or merge."""
    import onnx_ir
    from onnx_ir.passes import common
    from onnxscript import optimizer
    from onnxscript.rewriter import rewrite
    from onnxscript.rewriter.rules import common as rules

    def optimise(source: str, target: str) -> None:
        model = onnx_ir.load(source)
        optimizer.inline(model)
        for _ in range(2):  # as often as optimize
            optimizer.fold_constants(model)
            model = rewrite(model, [getattr(rules, name) for name in NO_FUSIONS])
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        common.DeduplicateInitializersPass()(model)
        common.CommonSubexpressionEliminationPass()(model)
        onnx_ir.save(model, target)

    return optimise


def onnxslim() -> Optimise:
    from onnxslim.cli import main

    return _main(main, "onnxslim", "{source}", "{target}")


def onnxsim() -> Optimise:
    from onnxsim import main

    return _main(main, "onnxsim", "{source}", "{target}")


def polygraphy() -> Optimise:
    from polygraphy.tools import main

    words = ("surgeon", "sanitize", "--fold-constants", "{source}", "-o", "{target}")
    return _main(main, "polygraphy", *words)


def ours(preset: str, *words: str) -> Callable[[], Optimise]:
    def start() -> Optimise:
        from onnx_passes.cli.main import main

        return _main(
            main, "onnx-passes", "-q", "-c", preset, *words, "-o", "{target}", "{source}"
        )

    return start


def _main(main: Callable[[], object], *words: str) -> Optimise:
    def optimise(source: str, target: str) -> None:
        sys.argv = [word.format(source=source, target=target) for word in words]
        try:
            code = main()
        except SystemExit as exit_:
            code = exit_.code
        if code not in (None, 0) and not (isinstance(code, str) and not code):
            raise RuntimeError(f"it ended with {code}")
        if not os.path.exists(target):
            raise RuntimeError("it ended without an error and wrote nothing")

    return optimise


TOOLS: dict[str, Callable[[], Optimise]] = {
    "onnxoptimizer": onnxoptimizer(),
    "onnxoptimizer, no fusion": onnxoptimizer(*FUSIONS),
    "onnxscript": onnxscript,
    "onnxscript, no fusion": onnxscript_without_fusion,
    "onnxslim": onnxslim,
    "onnxsim": onnxsim,
    "polygraphy": polygraphy,
    "simplify": ours("simplify"),
    "simplify, unverified": ours("simplify", "--no-verify"),
    "optimize": ours("optimize"),
    "optimize, unverified": ours("optimize", "--no-verify"),
}


def serve(answer: Callable[[Any], object]) -> None:
    """Answer each line of standard input; what is printed meanwhile goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print("ready", file=answers)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers)


def answering(optimise: Optimise) -> Callable[[list[str]], str]:
    """Return ``optimise`` as what says ``ok`` or its error."""

    def answer(paths: list[str]) -> str:
        try:
            optimise(*paths)
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
        return "ok"

    return answer


def main() -> None:
    """Run one file, or serve."""
    optimise = TOOLS[sys.argv[1]]()
    if len(sys.argv) == 4:
        optimise(*sys.argv[2:])
    else:
        serve(answering(optimise))


if __name__ == "__main__":
    main()
