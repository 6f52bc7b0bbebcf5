"""More families of the Transformers library and of torchvision that read images, in small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# isort: split

# isort: split
import torchvision
import transformers as t

from benchmarks.export.network import Network, Outputs
from benchmarks.export.small import (
    BATCH,
    HIDDEN,
    IMAGES,
    LOGITS,
    SIZES,
    WIDE,
    Plain,
    image_network,
    vision_network,
)

DEPTHS = {"depths": [1, 1, 1, 1]}


class MaskDecoder(torch.nn.Module):
    """The decoder of Segment Anything: masks of points and an image's embedding."""

    def __init__(self) -> None:
        super().__init__()
        vision = {**SIZES, "image_size": 128, "output_channels": 64, "window_size": 4}
        vision |= {"global_attn_indexes": [1], "num_pos_feats": 32}
        prompt = {"hidden_size": 64, "image_size": 128, "image_embedding_size": 8}
        decoder = {"hidden_size": 64, "num_attention_heads": 2, "mlp_dim": 128}
        decoder |= {"iou_head_hidden_dim": 64}
        config = t.SamConfig(
            vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder
        )
        self.model = t.SamModel(config)

    def forward(self, embedding: Any, points: Any, labels: Any) -> Any:
        result = self.model(
            image_embeddings=embedding, input_points=points, input_labels=labels
        )
        return result.iou_scores, result.pred_masks


def _sam() -> Network:
    args = (
        torch.randn(BATCH, 64, 8, 8),
        torch.rand(BATCH, 1, 3, 2) * 128,
        torch.ones(BATCH, 1, 3, dtype=torch.int64),
    )
    names, taken = ["embedding", "points", "labels"], ["scores", "masks"]
    axes = dict.fromkeys([*names, *taken], IMAGES)
    return Network(MaskDecoder(), args, names, taken, axes)


def _video() -> Network:
    config = t.VideoMAEConfig(**SIZES, image_size=32, patch_size=8, num_frames=4)
    named = Plain(Outputs(t.VideoMAEModel(config), ["pixel_values"], [HIDDEN]), 0)
    axes = {"pixel_values": IMAGES, HIDDEN: IMAGES}
    args = (torch.randn(BATCH, 4, 3, 32, 32),)
    return Network(named, args, ["pixel_values"], [HIDDEN], axes)


FAMILIES: dict[str, Callable[[], Network]] = {
    "convnext-v2": lambda: image_network(
        t.ConvNextV2Model(t.ConvNextV2Config(**DEPTHS, hidden_sizes=[32, 64, 96, 128])),
        HIDDEN,
    ),
    "densenet": lambda: vision_network(torchvision.models.densenet121(weights=None), size=64),
    "dpt": lambda: image_network(
        t.DPTForDepthEstimation(
            t.DPTConfig(
                **{**SIZES, "num_hidden_layers": 4},
                image_size=64,
                patch_size=8,
                backbone_out_indices=[0, 1, 2, 3],
                neck_hidden_sizes=[32, 32, 64, 64],
                fusion_hidden_size=32,
                is_hybrid=False,
            )
        ),
        "predicted_depth",
    ),
    "fcn": lambda: vision_network(
        torchvision.models.segmentation.lraspp_mobilenet_v3_large(
            weights=None, weights_backbone=None
        ),
        "out",
    ),
    "googlenet": lambda: vision_network(
        torchvision.models.googlenet(weights=None, init_weights=False)
    ),
    "inception": lambda: vision_network(
        torchvision.models.inception_v3(weights=None, init_weights=False), size=96
    ),
    "levit": lambda: image_network(
        t.LevitModel(
            t.LevitConfig(
                image_size=64,
                hidden_sizes=[128, 128, 128],
                depths=[1, 1, 1],
                num_attention_heads=[4, 4, 4],
            )
        ),
        HIDDEN,
    ),
    "maxvit": lambda: vision_network(
        torchvision.models.MaxVit((64, 64), 16, 4, [32, 64], [1, 1], 16, 0.0),
        size=64,
    ),
    "poolformer": lambda: image_network(
        t.PoolFormerModel(t.PoolFormerConfig(**DEPTHS, hidden_sizes=[32, 64, 96, 128])),
        HIDDEN,
    ),
    "pvt": lambda: image_network(
        t.PvtModel(t.PvtConfig(image_size=64, **DEPTHS)),
        HIDDEN,
    ),
    "resnext": lambda: vision_network(torchvision.models.resnext50_32x4d(weights=None)),
    "sam-decoder": _sam,
    "siglip": lambda: image_network(
        t.SiglipVisionModel(t.SiglipVisionConfig(**SIZES, image_size=64, patch_size=8)), HIDDEN
    ),
    "swin2sr": lambda: image_network(
        t.Swin2SRForImageSuperResolution(
            t.Swin2SRConfig(
                image_size=32,
                embed_dim=60,
                depths=[2, 2],
                num_heads=[4, 4],
                window_size=8,
                upscale=2,
            )
        ),
        "reconstruction",
        32,
    ),
    "swinv2": lambda: image_network(
        t.Swinv2Model(
            t.Swinv2Config(
                image_size=64,
                patch_size=4,
                embed_dim=32,
                depths=[2, 2],
                num_heads=[2, 4],
                window_size=4,
            )
        ),
        HIDDEN,
    ),
    "videomae": lambda: _video(),
    "vit-mae": lambda: image_network(
        t.ViTModel(t.ViTConfig(**WIDE, image_size=64, patch_size=8)), HIDDEN
    ),
    "yolos": lambda: image_network(
        t.YolosForObjectDetection(
            t.YolosConfig(**SIZES, image_size=[64, 64], patch_size=8, num_detection_tokens=10)
        ),
        LOGITS,
    ),
}
