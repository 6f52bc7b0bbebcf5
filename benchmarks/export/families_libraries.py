"""Later families of the Transformers library, in small: images, series, sound and words."""

from __future__ import annotations

from collections.abc import Callable

import torch

# isort: split

# isort: split
import transformers as t

from benchmarks.export.families_language import (
    SPEECH,
    cached_decoder,
    decoder_network,
    encoder_decoder,
)
from benchmarks.export.network import Network, Outputs
from benchmarks.export.small import (
    BATCH,
    HIDDEN,
    IMAGES,
    LOGITS,
    SIZES,
    WORDS,
    image_network,
    text_network,
)

SEQUENCE = {
    "vocab_size": 1000,
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "use_cache": False,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}


def _one(model: torch.nn.Module, key: str, taken: str, *shape: int) -> Network:
    """Return a model with one input of numbers and one result."""
    named, args = Outputs(model, [key], [taken]), (torch.randn(BATCH, *shape),)
    return Network(named, args, [key], [taken], {key: IMAGES, taken: IMAGES})


def _detector() -> torch.nn.Module:
    backbone = t.RTDetrResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = t.RTDetrConfig(
        backbone_config=backbone,
        encoder_in_channels=[32, 48, 64],
        encoder_hidden_dim=64,
        encoder_ffn_dim=128,
        encoder_attention_heads=4,
        feat_strides=[8, 16, 32],
        d_model=64,
        num_queries=20,
        decoder_in_channels=[64, 64, 64],
        decoder_ffn_dim=128,
        decoder_layers=2,
        decoder_attention_heads=4,
        num_labels=6,
        anchor_image_size=[64, 64],
    )
    return t.RTDetrForObjectDetection(config)


LATENT = {
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "first_k_dense_replace": 3,
}

FAMILIES: dict[str, Callable[[], Network]] = {
    "codegen": lambda: decoder_network(
        "CodeGen", n_embd=256, n_layer=2, n_head=4, rotary_dim=32, n_positions=128
    ),
    "cohere": lambda: decoder_network("Cohere", num_key_value_heads=2),
    "encodec": lambda: _one(
        t.AutoModel.from_config(
            t.DacConfig(
                encoder_hidden_size=16,
                downsampling_ratios=[2, 4],
                decoder_hidden_size=64,
                n_codebooks=3,
                codebook_size=64,
                codebook_dim=4,
                upsampling_ratios=[4, 2],
            )
        ),
        "input_values",
        "audio_values",
        1,
        256,
    ),
    "deepseek": lambda: decoder_network(
        "DeepseekV3", num_key_value_heads=4, n_group=1, topk_group=1, **LATENT
    ),
    "esm": lambda: text_network(
        t.EsmModel(
            t.EsmConfig(**WORDS, position_embedding_type="rotary", pad_token_id=0), False
        ),
        HIDDEN,
    ),
    "focalnet": lambda: image_network(
        t.FocalNetModel(t.FocalNetConfig(image_size=64, embed_dim=32, depths=[1, 1, 1, 1])),
        HIDDEN,
    ),
    "glpn": lambda: image_network(
        t.GLPNForDepthEstimation(t.GLPNConfig(depths=[1, 1, 1, 1])), "predicted_depth"
    ),
    "gpt-bigcode": lambda: decoder_network(
        "GPTBigCode", n_embd=256, n_layer=3, n_head=4, n_inner=512
    ),
    "gptj-cache": lambda: cached_decoder("GPTJ", 4, 64, 2, n_inner=512, rotary_dim=16),
    "granite-cache": lambda: cached_decoder("Granite", 2, 64, 2, num_key_value_heads=2),
    "hiera": lambda: image_network(
        t.HieraModel(
            t.HieraConfig(
                image_size=[64, 64],
                embed_dim=32,
                depths=[1, 1, 2, 1],
                num_heads=[1, 2, 4, 8],
                masked_unit_size=[8, 8],
            )
        ),
        HIDDEN,
    ),
    "marian": lambda: encoder_decoder(t.MarianMTModel(t.MarianConfig(**SEQUENCE))),
    "nystromformer": lambda: text_network(
        t.NystromformerModel(
            t.NystromformerConfig(**WORDS, num_landmarks=8, segment_means_seq_len=48)
        ),
        HIDDEN,
    ),
    "patch-series": lambda: _one(
        t.PatchTSTForPrediction(
            t.PatchTSTConfig(
                num_input_channels=3,
                context_length=64,
                prediction_length=12,
                d_model=64,
                num_attention_heads=4,
                num_hidden_layers=2,
                ffn_dim=128,
                patch_length=8,
                patch_stride=8,
            )
        ),
        "past_values",
        "prediction_outputs",
        64,
        3,
    ),
    "rt-detector": lambda: image_network(_detector(), LOGITS),
    "superpoint": lambda: _one(
        t.SuperPointForKeypointDetection(t.SuperPointConfig()).encoder,
        "input",
        HIDDEN,
        1,
        48,
        48,
    ),
    "timesformer": lambda: _one(
        t.TimesformerModel(
            t.TimesformerConfig(**SIZES, image_size=32, patch_size=8, num_frames=4)
        ),
        "pixel_values",
        HIDDEN,
        4,
        3,
        32,
        32,
    ),
    "wavlm": lambda: _one(
        t.WavLMForCTC(t.WavLMConfig(**SPEECH)), "input_values", LOGITS, 8000
    ),
}
