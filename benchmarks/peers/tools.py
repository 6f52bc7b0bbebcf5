"""The optimisers, each in an environment of its own, and how each is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import environment

COMMON = ("onnx==1.23.2", "onnxruntime==1.31.1", "numpy==2.4.6")
OPTIMIZE = "optimize"
SCRIPT = """import sys, onnx_ir
from onnxscript import optimizer
model = onnx_ir.load(sys.argv[1])
optimizer.optimize(model)
onnx_ir.save(model, sys.argv[2])"""
"""onnxscript has no command."""


@dataclass(frozen=True)
class Tool:
    """An optimiser as a command.

    Attributes:
        name: As the tables call it.
        requirements: Packages of its environment; none for ours, which runs in this one.
        words: The arguments of its Python, with ``{source}`` and ``{target}``.
    """

    name: str
    requirements: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def ours(self) -> bool:
        """Whether it is ours."""
        return not self.requirements

    def python(self, cache: Path) -> Path:
        """Return the interpreter that it runs in, made if need be."""
        if self.ours:
            return Path(sys.executable)
        return environment(cache / "tools" / self.name, [*self.requirements, *COMMON])

    def command(self, cache: Path, source: Path, target: Path) -> list[str]:
        """Return the command that makes ``target`` of ``source``."""
        python = self.python(cache)
        places = {"source": source, "target": target, "bin": python.parent, "script": SCRIPT}
        return [str(python), *(word.format(**places) for word in self.words)]


PEERS = (
    Tool("onnxslim", ("onnxslim==0.1.98",), ("{bin}/onnxslim", "{source}", "{target}")),
    Tool("onnxsim", ("onnxsim==0.8.1",), ("{bin}/onnxsim", "{source}", "{target}")),
    Tool(
        "onnxoptimizer",
        ("onnxoptimizer==0.4.2",),
        ("{bin}/onnxoptimizer", "{source}", "{target}", "--fixed_point"),
    ),
    Tool("onnxscript", ("onnxscript==0.7.2",), ("-c", "{script}", "{source}", "{target}")),
    Tool(
        "polygraphy",
        ("polygraphy==0.53.6", "onnx_graphsurgeon==0.6.1"),
        (
            *("{bin}/polygraphy", "surgeon", "sanitize", "--fold-constants"),
            *("{source}", "-o", "{target}"),
        ),
    ),
)


def ours(presets: Sequence[str] = (OPTIMIZE,)) -> tuple[Tool, ...]:
    """Return ours, each preset verified and not."""
    return tuple(
        Tool(
            f"{preset}{'' if verified else ', unverified'}",
            (),
            (
                *("-m", "onnx_passes", "-q", "-c", preset),
                *(() if verified else ("--no-verify",)),
                *("-o", "{target}", "{source}"),
            ),
        )
        for preset in presets
        for verified in (True, False)
    )
