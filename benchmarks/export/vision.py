"""MobileNetV2, ResNet-50, Swin, ViT and DETR."""

from __future__ import annotations

import torch
import transformers

from benchmarks.export.network import Network, Outputs
from benchmarks.export.vision_library import torchvision

BATCH = 2
IMAGE = {0: "batch"}


def mobilenet() -> Network:
    """Return MobileNetV2: 3.5 million weights."""
    return _classifier(torchvision.models.mobilenet_v2(weights=None))


def resnet() -> Network:
    """Return ResNet-50: 25.6 million weights."""
    return _classifier(torchvision.models.resnet50(weights=None))


def swin() -> Network:
    """Return Swin-T: 28 million weights."""
    return _classifier(torchvision.models.swin_t(weights=None))


def vit() -> Network:
    """Return ViT-base: 12 layers, patches of 16, 86 million weights."""
    model = transformers.ViTForImageClassification(transformers.ViTConfig())
    named = Outputs(model, ["pixel_values"], ["logits"])
    dynamic = {"pixel_values": IMAGE, "logits": IMAGE}
    args = (torch.randn(BATCH, 3, 224, 224),)
    return Network(named, args, ["pixel_values"], ["logits"], dynamic)


def detr() -> Network:
    """Return DETR with ResNet-50: 6 layers each way, 41 million weights, any size of image."""
    backbone = transformers.ResNetConfig(out_features=["stage4"])
    config = transformers.DetrConfig(backbone_config=backbone, use_timm_backbone=False)
    model = transformers.DetrForObjectDetection(config)
    taken = ["logits", "pred_boxes"]
    named = Outputs(model, ["pixel_values"], taken)
    dynamic = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    dynamic |= dict.fromkeys(taken, IMAGE)
    args = (torch.randn(BATCH, 3, 320, 416),)
    return Network(named, args, ["pixel_values"], taken, dynamic)


def _classifier(model: torch.nn.Module) -> Network:
    dynamic = {"image": IMAGE, "scores": IMAGE}
    args = (torch.randn(BATCH, 3, 224, 224),)
    return Network(model, args, ["image"], ["scores"], dynamic)
