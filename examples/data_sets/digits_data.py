"""All 1,797 images of scikit-learn's digits, as the model of ``../digits`` takes them."""

from typing import Any

import numpy as np
from sklearn.datasets import load_digits


class Digits:
    """Samples by number, so that each worker reads its own."""

    def __init__(self) -> None:
        data = load_digits()
        self.images, self.labels = data.images, data.target

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> dict[str, Any]:
        image = (self.images[number] / 16).astype(np.float32)
        return {"image": image[None], "label": np.int64(self.labels[number])}


def digits() -> Digits:
    """Return the samples: ``--data digits_data:digits``."""
    return Digits()
