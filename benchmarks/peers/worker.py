"""Run an optimiser, in its own environment: ``python worker.py TOOL SOURCE TARGET``.

Without SOURCE and TARGET it reads pairs of them from standard input, a JSON list a line, and
answers each with a line: ``ok``, or the error. So 2,000 small models take one process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable

Optimise = Callable[[str, str], None]


def onnxoptimizer() -> Optimise:
    import onnx
    import onnxoptimizer as library

    passes = library.get_fuse_and_elimination_passes()

    def optimise(source: str, target: str) -> None:
        onnx.save(library.optimize(onnx.load(source), passes, True), target)

    return optimise


def onnxscript() -> Optimise:
    import onnx_ir
    from onnxscript import optimizer

    def optimise(source: str, target: str) -> None:
        model = onnx_ir.load(source)
        optimizer.optimize(model)
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
    "onnxoptimizer": onnxoptimizer,
    "onnxscript": onnxscript,
    "onnxslim": onnxslim,
    "onnxsim": onnxsim,
    "polygraphy": polygraphy,
}


def serve(optimise: Optimise) -> None:
    """Answer each line of standard input; what the tool prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print("ready", file=answers)
    for line in sys.stdin:
        source, target = json.loads(line)
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                optimise(source, target)
        except BaseException as error:
            print(
                json.dumps(f"{type(error).__name__}: {error} {said.getvalue()[-300:]}"),
                file=answers,
            )
        else:
            print(json.dumps("ok"), file=answers)


def main() -> None:
    """Run one file, or serve."""
    optimise = TOOLS[sys.argv[1]]()
    if len(sys.argv) == 4:
        optimise(*sys.argv[2:])
    else:
        serve(optimise)


if __name__ == "__main__":
    main()
