"""``torchvision``, also where its own operators cannot be loaded.

PyPI has torchvision only as built for CUDA. Beside a PyTorch without CUDA its library of
operators does not load, and importing it then fails where it describes two of them. They are
declared here, without an implementation; no network of ours uses them.
"""

import torch

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
"""Kept: the declarations go when it does."""

for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import torchvision  # noqa: E402

__all__ = ["torchvision"]
