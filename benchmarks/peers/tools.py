"""The optimisers, each in an environment of its own, and how each is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import environment
from benchmarks.peers.worker import FUSIONS

COMMON = ("onnx==1.23.2", "onnxruntime==1.31.1", "numpy==2.4.6")
WORKER = Path(__file__).with_name("worker.py")


SIMPLIFY, OPTIMIZE = "simplify", "optimize"

SLIM_FUSIONS = tuple(
    f"Fusion{name}"
    for name in (
        *("ConvAdd", "ConvTransposeAdd", "ConvBN", "ConvTransposeBN"),
        *("ConvMul", "ConvTransposeMul", "Gemm", "GemmMul", "GemmAdd"),
        *("PadConv", "Reduce"),
    )
)
"""Fusions of onnxslim; its FusionConcatReshape only simplifies the target of a Reshape."""

SIM_FUSIONS = (
    *FUSIONS,
    *(
        f"fuse_{name}"
        for name in (
            *("matmul_add_bias_into_gemm_batched", "matmul_into_conv", "mul_into_conv"),
            *("preceding_mul_into_conv", "reduce_sum_into_conv", "attention", "gelu", "gqa"),
            *("layer_norm", "rms_norm", "rope", "lp_normalization"),
        )
    ),
)
"""Fusions of onnxsim: those of onnxoptimizer, and its own, which its lists do not all name."""


@dataclass(frozen=True)
class Tool:
    """An optimiser as a command.

    Attributes:
        name: As the tables call it.
        requirements: Packages of its environment; none for ours, which runs in this one.
        words: The arguments of its Python, with ``{source}`` and ``{target}``.
        presets: Presets of ours that it is compared with: those that may do as much as it.
    """

    name: str
    requirements: tuple[str, ...]
    words: tuple[str, ...]
    presets: tuple[str, ...] = (OPTIMIZE,)

    @property
    def ours(self) -> bool:
        """Whether it is ours."""
        return not self.requirements

    def python(self, cache: Path) -> Path:
        """Return the interpreter that it runs in, made if need be."""
        if self.ours:
            return Path(sys.executable)
        name = self.name.partition(",")[0]
        return environment(cache / "tools" / name, [*self.requirements, *COMMON])

    def command(self, cache: Path, source: Path, target: Path) -> list[str]:
        """Return the command that makes ``target`` of ``source``."""
        python = self.python(cache)
        places = {"source": source, "target": target, "bin": python.parent, "worker": WORKER}
        return [str(python), *(word.format(**places) for word in self.words)]

    def without_fusion(self, *words: str) -> Tool:
        """Return the tool with arguments that keep it from fusing."""
        return Tool(f"{self.name}, no fusion", self.requirements, words, (SIMPLIFY,))


_SLIM = Tool("onnxslim", ("onnxslim==0.1.98",), ("{bin}/onnxslim", "{source}", "{target}"))
_SIM = Tool("onnxsim", ("onnxsim==0.8.1",), ("{bin}/onnxsim", "{source}", "{target}"))
_OPTIMIZER = Tool(
    "onnxoptimizer",
    ("onnxoptimizer==0.4.2",),
    ("{bin}/onnxoptimizer", "{source}", "{target}", "--fixed_point"),
)
_SCRIPT = Tool(
    "onnxscript",
    ("onnxscript==0.7.2",),
    ("{worker}", "onnxscript", "{source}", "{target}"),
)
_POLYGRAPHY = Tool(
    "polygraphy",
    ("polygraphy==0.53.6", "onnx_graphsurgeon==0.6.1"),
    (
        *("{bin}/polygraphy", "surgeon", "sanitize", "--fold-constants"),
        *("{source}", "-o", "{target}"),
    ),
    (SIMPLIFY, OPTIMIZE),  # it never fuses
)

PEERS = (
    *(_SLIM, _SIM, _OPTIMIZER, _SCRIPT, _POLYGRAPHY),
    _SLIM.without_fusion(*_SLIM.words, "--skip-fusion-patterns", *SLIM_FUSIONS),
    _SIM.without_fusion(*_SIM.words, "--skip-optimization", *SIM_FUSIONS),
    *(
        tool.without_fusion("{worker}", f"{tool.name}, no fusion", "{source}", "{target}")
        for tool in (_OPTIMIZER, _SCRIPT)
    ),
)


def peers_of(preset: str) -> tuple[Tool, ...]:
    """Return the peers that a preset of ours is compared with."""
    return tuple(tool for tool in PEERS if preset in tool.presets)


def ours(presets: Sequence[str] = ("simplify", "optimize")) -> tuple[Tool, ...]:
    """Return ours, each preset verified and not."""
    return tuple(
        Tool(
            f"{preset}{'' if verified else ', unverified'}",
            (),
            (
                "-m",
                "onnx_passes",
                "-q",
                "-c",
                preset,
                *(() if verified else ("--no-verify",)),
                "-o",
                "{target}",
                "{source}",
            ),
        )
        for preset in presets
        for verified in (True, False)
    )
