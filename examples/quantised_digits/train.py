"""Train the networks and write them as QONNX files.

    pip install torch==2.13.0 brevitas==0.13.4 onnxoptimizer onnxscript scikit-learn
    python train.py            # all of them, some minutes on two cores
    python train.py mlp_1w1a   # only this one

Seeded: the same machine writes the same files again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from brevitas.export import export_qonnx
from networks import NETWORKS
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

SEED, HELD_BACK = 0, 400
EPOCHS, BATCH, RATE = 60, 64, 4e-3
HERE = Path(__file__).parent


def split_digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training images and labels, then the images and labels of ``../digits``."""
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    parts = train_test_split(
        images,
        labels.astype(np.int64),
        test_size=HELD_BACK,
        stratify=labels,
        random_state=SEED,
    )
    train_images, test_images, train_labels, test_labels = map(torch.from_numpy, parts)
    return train_images, train_labels, test_images, test_labels


def shift(images: Tensor) -> Tensor:
    """Move each image by up to one pixel."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    rows, columns = torch.randint(0, 3, (2, len(images), 1, 1))
    index, number = torch.arange(8), torch.arange(len(images))[:, None, None]
    return padded[number, 0, rows + index[:, None], columns + index][:, None]


def train(network: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Fit with Adam under a cosine learning rate; gradients pass straight through rounding."""
    steps = EPOCHS * (len(images) // BATCH)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    network.train()
    for epoch in range(EPOCHS):
        losses = []
        order = torch.randperm(len(images))
        for chosen in order[: len(order) // BATCH * BATCH].reshape(-1, BATCH):
            optimizer.zero_grad()
            scores = network(shift(images[chosen]))
            loss = nn.functional.cross_entropy(scores, labels[chosen])
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        if (epoch + 1) % 20 == 0:
            print(f"  epoch {epoch + 1}/{EPOCHS}: loss {np.mean(losses):.4f}")
    network.eval()


def export(network: nn.Module, path: Path, metadata: dict[str, str]) -> None:
    """Write a QONNX file of a batch of any size."""
    images = torch.zeros(1, 1, 8, 8)
    export_qonnx(
        network,
        images,
        str(path),
        input_names=["image"],
        output_names=["scores"],
        dynamic_axes={"image": {0: "batch"}, "scores": {0: "batch"}},
        dynamo=False,
    )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, path)


def main() -> None:
    """Train and export the networks that the command line names, or all."""
    train_images, train_labels, test_images, test_labels = split_digits()
    for name in sys.argv[1:] or NETWORKS:
        print(name)
        torch.manual_seed(SEED)
        network = NETWORKS[name]()
        train(network, train_images, train_labels)
        with torch.no_grad():
            found = network(test_images).argmax(1)
        accuracy = float((found == test_labels).float().mean())
        print(f"  accuracy on {len(found)} held-back images: {accuracy:.2%}")
        metadata = {
            "dataset": "Optical Recognition of Handwritten Digits, UCI, CC BY 4.0",
            "image": "float32 [batch,1,8,8], ink in [0,1]: grey value / 16",
            "test_accuracy": f"{accuracy:.4f}",
        }
        export(network, HERE / f"{name}.onnx", metadata)


if __name__ == "__main__":
    main()
