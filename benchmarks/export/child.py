"""``python -m benchmarks.export.child NETWORK EXPORTER OUT``, in PyTorch's environment."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from benchmarks.export import text, vision
from benchmarks.export.network import Network

NETWORKS: dict[str, Callable[[], Network]] = {
    "bert": text.bert,
    "gpt2": text.gpt2,
    "gpt2-cache": text.gpt2_cached,
    "llama": text.llama,
    "t5": text.t5,
    "whisper": text.whisper,
    "vit": vision.vit,
    "mobilenet": vision.mobilenet,
    "resnet": vision.resnet,
    "swin": vision.swin,
    "detr": vision.detr,
}
OPSETS = {"torchscript": 17, "dynamo": 18}
SEED = 0


def export(name: str, exporter: str, out: Path, *, fixed: bool = False) -> None:
    """Build a network from the seed and write it as one file.

    Args:
        name: One of ``NETWORKS``.
        exporter: One of ``OPSETS``.
        out: The ONNX file; the example's inputs go beside it as ``.npz``.
        fixed: Whether all axes have the sizes of the example.
    """
    torch.manual_seed(SEED)
    network = NETWORKS[name]()
    if fixed:
        network = replace(network, dynamic={})
    network.module.eval()
    scatter(network.module)
    torch.backends.mha.set_fastpath_enabled(False)  # one operator, which ONNX does not have
    settings = {
        "input_names": list(network.inputs),
        "output_names": list(network.outputs),
        "opset_version": OPSETS[exporter],
    }
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "torchscript":
            torch.onnx.export(
                network.module,
                network.args,
                str(out),
                dynamo=False,
                dynamic_axes=network.dynamic,
                **settings,
            )
        else:
            torch.onnx.export(
                network.module,
                network.args,
                str(out),
                dynamo=True,
                external_data=False,
                dynamic_shapes=network.dynamic_shapes(),
                **settings,
            )
    onnx.checker.check_model(str(out))
    write_inputs(network, out.with_suffix(".npz"))


def scatter(module: torch.nn.Module) -> None:
    """Move parameters and statistics that are all equal, as biases of 0, off that value.

    No trained network has them, and optimisers remove adding 0 or multiplying by 1.
    """
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if (
                tensor.is_floating_point()
                and tensor.numel() > 1
                and tensor.min() == tensor.max()
            ):
                tensor.add_(torch.rand_like(tensor) * 0.02)


def write_inputs(network: Network, path: Path) -> None:
    """Write the example arguments by the names of the inputs."""

    def flat(arg: Any) -> Iterator[torch.Tensor]:
        if isinstance(arg, tuple):
            for part in arg:
                yield from flat(part)
        else:
            yield arg

    named = zip(network.inputs, flat(network.args), strict=True)
    np.savez(path, **{name: tensor.numpy() for name, tensor in named})


def main() -> None:
    """Export, and print what was written."""
    name, exporter, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    export(name, exporter, out)
    model = onnx.load(out)
    print(json.dumps({"nodes": len(model.graph.node), "bytes": out.stat().st_size}))


if __name__ == "__main__":
    main()
