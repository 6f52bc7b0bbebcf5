"""Train the digits network and write the model and the held-back images.

    pip install numpy onnx scikit-learn
    python train.py

takes under a minute on a laptop. Seeded: the same machine writes the same files again;
another BLAS or thread count may round differently and train a slightly different model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from export import build_model
from network import Array, Params, initialise, loss_and_gradients, predict, trainable

SEED, HELD_BACK = 0, 400
EPOCHS, BATCH, RATE = 40, 64, 2e-3
HERE = Path(__file__).parent


def load_digits() -> tuple[Array, Array, Array, Array]:
    """Return training images and labels, then held-back images and labels.

    Images are float32 ``[n, 1, 8, 8]`` in [0, 1], labels int64 ``[n]``.
    """
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    images, labels = load(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    split = train_test_split(
        images,
        labels.astype(np.int64),
        test_size=HELD_BACK,
        stratify=labels,
        random_state=SEED,
    )
    train_images, test_images, train_labels, test_labels = split
    return train_images, train_labels, test_images, test_labels


def shift(rng: np.random.Generator, images: Array) -> Array:
    """Move each image by up to one pixel: the strokes stay, the position does not matter."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    rows, columns = rng.integers(0, 3, (2, len(images), 1, 1))
    index = np.arange(8)
    number = np.arange(len(images))[:, None, None]
    shifted: Array = padded[number, 0, rows + index[:, None], columns + index]
    return shifted[:, None]


def train(images: Array, labels: Array, rng: np.random.Generator) -> Params:
    """Fit with Adam (Kingma and Ba, 2015) under a cosine learning rate."""
    params = initialise(rng, images)
    first, second = ({n: np.zeros_like(params[n]) for n in trainable(params)} for _ in "12")
    steps, step = EPOCHS * (len(images) // BATCH), 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        losses = []
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            pixels = shift(rng, images[chosen])
            loss, grads = loss_and_gradients(params, pixels, labels[chosen], rng)
            losses.append(loss)
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, grad in grads.items():
                first[name] += 0.1 * (grad - first[name])
                second[name] += 0.001 * (grad**2 - second[name])
                mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                params[name] -= np.float32(rate) * mean / (np.sqrt(square) + np.float32(1e-8))
        if (epoch + 1) % 5 == 0:
            print(f"epoch {epoch + 1:2}/{EPOCHS}: loss {np.mean(losses):.4f}")
    return params


def main() -> None:
    train_images, train_labels, test_images, test_labels = load_digits()
    params = train(train_images, train_labels, np.random.default_rng(SEED))
    correct = predict(params, test_images).argmax(1) == test_labels
    print(f"accuracy on {len(correct)} held-back images: {correct.mean():.2%}")
    metadata = {
        "dataset": "Optical Recognition of Handwritten Digits, UCI, CC BY 4.0",
        "image": "float32 [batch,1,8,8], ink in [0,1]: grey value / 16",
        "test_accuracy": f"{correct.mean():.4f}",
    }
    onnx.save(build_model(params, metadata), HERE / "model.onnx")
    np.save(HERE / "images.npy", test_images)
    np.save(HERE / "labels.npy", test_labels)


if __name__ == "__main__":
    main()
