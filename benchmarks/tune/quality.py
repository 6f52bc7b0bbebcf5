"""``python -m benchmarks tune-quality``: what passes and peers lose on held-back data.

Small trained networks: digits by layers and by a vision transformer, letters by a decoder. How
they were trained is in the history: ``git log -- benchmarks/tune/transformers.py``.
Ranges and moments are recorded on one part of the data; what is lost is measured on another.
Peers are ONNX Runtime's quantiser and, where it is installed, onnxconverter-common.
"""

from __future__ import annotations

import importlib
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import weight_bytes
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.convert.convert_opset import ConvertOpset
from onnx_passes.passes.registry import lookup
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.groups import prepare

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "digits"
LENGTH, VOCABULARY = 64, 96
"""Letters that a sample has, and kinds of letters: those of ASCII from the space on."""

Steps = Sequence[tuple[str, Mapping[str, Any]]]
_BLOCK = {"block": 32, "least": 1}
_CORRECT: Steps = (("correct-biases", {}),)
_STATIC: Steps = (("quantize-static", {}),)
_TENSOR: Steps = (("quantize-static", {"per_channel": False}),)
OURS: dict[str, Steps] = {
    "int8 static": _STATIC,
    "int8 static, corrected": (*_STATIC, *_CORRECT),
    "int8 static, smooth": (("smooth-activations", {}), *_STATIC),
    "int8 static, smooth, corrected": (("smooth-activations", {}), *_STATIC, *_CORRECT),
    "int8 static by tensor": _TENSOR,
    "int8 static by tensor, equalised": (("equalize-layers", {"powers": False}), *_TENSOR),
    "int4 blocks": (("quantize-weights", {"weights": "int4", **_BLOCK}),),
    "int4 blocks, corrected": (("quantize-weights", {"weights": "int4", **_BLOCK}), *_CORRECT),
    "int4 blocks, AdaRound": (("quantize-weights-adaround", {"weights": "int4", **_BLOCK}),),
    "int4 blocks, GPTQ": (("quantize-weights-gptq", {"weights": "int4", **_BLOCK}),),
    "int2 blocks": (("quantize-weights", {"weights": "int2", **_BLOCK}),),
    "int2 blocks, GPTQ": (("quantize-weights-gptq", {"weights": "int2", **_BLOCK}),),
    "float8": (("convert-float8", {}),),
    "float8, scaled": (("convert-float8", {"scaled": True}),),
}


def letters(held_back: bool) -> np.ndarray[Any, Any]:
    """Return the texts as numbers of letters: every fifth topic, or all others."""
    from pydoc_data.topics import topics

    parts = [
        text
        for place, (_, text) in enumerate(sorted(topics.items()))
        if (place % 5 == 0) is held_back
    ]
    codes = np.frombuffer("".join(parts).encode("ascii", "replace"), np.uint8).astype(np.int64)
    return np.where((codes >= 32) & (codes < 127), codes - 32, VOCABULARY - 1)


def windows(text: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return samples of letters, one behind the other, of shape [samples, LENGTH + 1]."""
    count = (len(text) - 1) // LENGTH
    starts = np.arange(count) * LENGTH
    return text[starts[:, None] + np.arange(LENGTH + 1)]


@dataclass(frozen=True)
class Case:
    """A network with data.

    Attributes:
        title: What it is.
        model: At opset 25, prepared.
        recorded: Inputs of the recorded run.
        held: Inputs of the judged run.
        labels: What is right on these.
    """

    title: str
    model: ir.Model
    recorded: dict[str, Any]
    held: dict[str, Any]
    labels: Any


def cases() -> list[Case]:
    """Return the networks; the half of the held-back data that is judged on is the second."""
    images, labels = np.load(EXAMPLE / "images.npy"), np.load(EXAMPLE / "labels.npy")
    found = [
        Case(
            title,
            _load(HERE / name),
            {"image": images[:200]},
            {"image": images[200:]},
            labels[200:],
        )
        for title, name in (
            ("MLP, 11 layers", "digits-11.onnx"),
            ("vision transformer", "vit.onnx"),
        )
    ]
    train, held = windows(letters(False))[::80][:32], windows(letters(True))[1::16][:32]
    decoder = _load(HERE / "decoder.onnx")
    tokens = {"tokens": train[:, :-1]}, {"tokens": held[:, :-1]}
    return [*found, Case("decoder of letters", decoder, *tokens, held[:, 1:])]


def _load(path: Path) -> ir.Model:
    model = ir.load(path)
    ConvertOpset(version=25).call(model)
    return prepare(model)


def apply(case: Case, steps: Steps) -> ir.Model:
    """Run passes over a copy of a network, on its recorded inputs."""
    copy, state = copy_model(case.model), dict[str, Any]()
    for name, options in steps:
        pass_ = lookup(name)[0](None, state, **options)
        pass_.context = PassContext(samples=[case.recorded])
        pass_.call(copy)
        lookup("shape-inference")[0]().call(copy)
    return copy


def run(model: ir.Model, feeds: dict[str, Any]) -> Any:
    """Run a network."""
    with OnnxRuntimeEngine(optimization="none").prepare(model) as session:
        return next(iter(session.run(feeds).values()))


class Reader:
    """Gives ONNX Runtime's quantiser its data."""

    def __init__(self, feeds: Sequence[Mapping[str, Any]]) -> None:
        self._left = iter(feeds)

    def get_next(self) -> Mapping[str, Any] | None:
        """Return the next sample."""
        return next(self._left, None)


def peers(
    feeds: Sequence[Mapping[str, Any]], **four_bits: Any
) -> dict[str, Callable[[Path, Path], None]]:
    """Return other quantisers, from a file to a file.

    Args:
        feeds: Samples for ranges.
        **four_bits: Options of the one that has 4 bits.
    """
    quantization = importlib.import_module("onnxruntime.quantization")

    def static(source: Path, goal: Path) -> None:
        quantization.quantize_static(str(source), str(goal), Reader(feeds), per_channel=True)

    def dynamic(source: Path, goal: Path) -> None:
        quantization.quantize_dynamic(str(source), str(goal), per_channel=True)

    def four(source: Path, goal: Path) -> None:
        module = importlib.import_module("onnxruntime.quantization.matmul_nbits_quantizer")
        made = module.MatMulNBitsQuantizer(onnx.load(source), block_size=32, **four_bits)
        made.process()
        onnx.save(made.model.model, goal)

    return {
        "onnxruntime quantize_static": static,
        "onnxruntime quantize_dynamic": dynamic,
        "onnxruntime 4 bits": four,
    }


def row(case: Case, name: str, model: ir.Model, old: Any) -> str:
    """Return what a network loses, as a row of a table."""
    new = run(model, case.held)
    noise = float(((new - old) ** 2).sum())
    told = 10 * np.log10(float((old**2).sum()) / noise) if noise else np.inf
    p, q = _shares(old), _shares(new)
    kl = float((np.exp(p) * (p - q)).sum(-1).mean())
    flips = float((old.argmax(-1) != new.argmax(-1)).mean())
    quality = f"{(new.argmax(-1) == case.labels).mean():.2%}"
    if case.labels.ndim > 1:
        at = np.take_along_axis(q, case.labels[..., None], -1)
        quality = f"perplexity {np.exp(-at.mean()):.3f}"
    size = weight_bytes(model) / weight_bytes(case.model)
    return f"| {name} | {size:.3f} | {told:.1f} | {kl:.2e} | {flips:.2%} | {quality} |"


def _shares(scores: Any) -> Any:
    shifted = scores.astype(np.float64) - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def tables() -> list[str]:
    """Return a table for each network."""
    text = []
    for case in cases():
        old = run(case.model, case.held)
        text += ["", f"**{case.title}**", ""]
        text += [
            "| | weights | SNR [dB] | KL | flips | held-back data |",
            "|---|---|---|---|---|---|",
        ]
        text.append(row(case, "float32", case.model, old))
        for name, steps in OURS.items():
            text.append(row(case, name, apply(case, steps), old))
        with tempfile.TemporaryDirectory() as folder:
            source, goal = Path(folder, "source.onnx"), Path(folder, "goal.onnx")
            model = ir.to_proto(case.model)
            model.ir_version = min(model.ir_version, 11)
            onnx.save(model, source)
            for name, quantise in peers([case.recorded], is_symmetric=True).items():
                try:
                    with redirect_stdout(io.StringIO()):
                        quantise(source, goal)
                    text.append(row(case, name, ir.load(goal), old))
                except Exception as error:
                    told = " ".join(str(error).split())[:80]
                    text.append(f"| {name} | {type(error).__name__}: {told} | | | | |")
    return text


if __name__ == "__main__":
    print("\n".join(tables()))
