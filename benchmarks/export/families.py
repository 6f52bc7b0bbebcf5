"""Networks of other families, in small: ``python -m benchmarks.export.families FOLDER``.

Run it in PyTorch's environment. Three layers of 256 channels are enough to see what an
optimiser leaves in each, and to time an inference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as t

from benchmarks.export import child, networks
from benchmarks.export.network import Network, Outputs, ids
from benchmarks.export.small import (
    BATCH,
    HIDDEN,
    IMAGES,
    LOGITS,
    SIZES,
    TOKENS,
    WIDE,
    WORDS,
    decoder_network,
    image_network,
    text_network,
    vision_network,
)
from benchmarks.export.text import cached
from benchmarks.export.vision_library import torchvision

SPEECH = {**SIZES, "vocab_size": 32, "conv_dim": (64,) * 7}
ALL = {"hidden_size": 256, "n_layer": 3, "n_head": 4, "vocab_size": 1000}
DEPTHS = {"depths": [1, 1, 1, 1]}
GROUPED = {"num_key_value_heads": 2, "head_dim": 64}


def cached_decoder(kind: str, heads: int, size: int, layers: int = 3, **given: Any) -> Network:
    """Return a decoder of the Transformers library that takes keys and values of the past.

    Args:
        kind: The model's name in the Transformers library, without ``Config``.
        heads: How many heads keys and values have.
        size: How many channels each head has.
        layers: How many layers the decoder has.
        given: More settings of its configuration.
    """
    config = getattr(t, f"{kind}Config")(**{**WORDS, "num_hidden_layers": layers, **given})
    model = getattr(t, f"{kind}ForCausalLM")(config)
    return cached(model, layers, heads, size, ids(1000, BATCH, 4))


def encoder_decoder(model: torch.nn.Module) -> Network:
    """Return a model that reads words and writes others."""
    names = ["input_ids", "attention_mask", "decoder_input_ids"]
    args = (
        ids(1000, BATCH, 24),
        torch.ones(BATCH, 24, dtype=torch.int64),
        ids(1000, BATCH, 8),
    )
    target = {0: "batch", 1: "target"}
    axes = {names[0]: TOKENS, names[1]: TOKENS, names[2]: target, LOGITS: target}
    return Network(Outputs(model, names, [LOGITS]), args, names, [LOGITS], axes)


def audio_network(model: torch.nn.Module, taken: str) -> Network:
    """Return a model that reads half a second of sound."""
    named = Outputs(model, ["input_values"], [taken])
    axes = {"input_values": IMAGES, taken: IMAGES}
    return Network(named, (torch.randn(BATCH, 8000),), ["input_values"], [taken], axes)


def _t5() -> Network:
    sizes = {"d_model": 256, "d_ff": 512, "num_layers": 2, "num_heads": 4, "d_kv": 64}
    config = t.MT5Config(**sizes, vocab_size=1000, use_cache=False, tie_word_embeddings=False)
    return encoder_decoder(t.MT5ForConditionalGeneration(config))


def of(
    build: Callable[..., Network],
    kind: str,
    suffix: str = "Model",
    taken: str = HIDDEN,
    **given: Any,
) -> Callable[[], Network]:
    """Return what makes a network of a model of the Transformers library.

    Args:
        build: Makes the network of the model.
        kind: The model's name in the library, without its suffix.
        suffix: Its suffix.
        taken: Name of its result that becomes the output.
        given: Settings of its configuration.
    """

    def make() -> Network:
        config = getattr(t, f"{kind}Config")(**given)
        return build(getattr(t, f"{kind}{suffix}")(config), taken)

    return make


FAMILIES: dict[str, Callable[[], Network]] = {
    "albert": of(text_network, "Albert", **WORDS),
    "beit": of(image_network, "Beit", **SIZES, image_size=64),
    "bert-mid": of(text_network, "Bert", **WORDS),
    "bigbird": of(text_network, "BigBird", **WORDS, attention_type="original_full"),
    "bloom": lambda: decoder_network("Bloom", **ALL),
    "clip-text": of(text_network, "CLIPText", **WORDS, eos_token_id=2),
    "clip-vision": of(image_network, "CLIPVision", **SIZES, image_size=64, patch_size=8),
    "codegen": lambda: decoder_network(
        "CodeGen", n_embd=256, n_layer=2, n_head=4, rotary_dim=32, n_positions=128
    ),
    "cohere": lambda: decoder_network("Cohere", num_key_value_heads=2),
    "conformer": of(
        audio_network,
        "Wav2Vec2Conformer",
        "ForCTC",
        LOGITS,
        **SPEECH,
        position_embeddings_type="rotary",
    ),
    "convbert": of(text_network, "ConvBert", **WORDS, embedding_size=256),
    "convnext-t": lambda: vision_network(torchvision.models.convnext_tiny(weights=None)),
    "convnext-v2": of(image_network, "ConvNextV2", **DEPTHS, hidden_sizes=[32, 64, 96, 128]),
    "deberta": of(
        text_network,
        "DebertaV2",
        **WORDS,
        relative_attention=True,
        position_buckets=32,
        pos_att_type=["p2c", "c2p"],
        max_relative_positions=64,
    ),
    "deeplab": lambda: vision_network(
        torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
            weights=None, weights_backbone=None
        ),
        "out",
    ),
    "densenet": lambda: vision_network(torchvision.models.densenet121(weights=None), size=64),
    "dino": of(image_network, "Dinov2", **WIDE, image_size=64, patch_size=8),
    "distilbert": of(
        text_network,
        "DistilBert",
        vocab_size=1000,
        dim=256,
        n_layers=3,
        n_heads=4,
        hidden_dim=1024,
    ),
    "efficientnet": lambda: vision_network(torchvision.models.efficientnet_b0(weights=None)),
    "electra": of(text_network, "Electra", **WORDS, embedding_size=128),
    "esm": lambda: text_network(
        t.EsmModel(
            t.EsmConfig(**WORDS, position_embedding_type="rotary", pad_token_id=0), False
        ),
        HIDDEN,
    ),
    "falcon": lambda: decoder_network(
        "Falcon", new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=512
    ),
    "fcn": lambda: vision_network(
        torchvision.models.segmentation.lraspp_mobilenet_v3_large(
            weights=None, weights_backbone=None
        ),
        "out",
    ),
    "fnet": of(text_network, "FNet", **WORDS),
    "focalnet": of(
        image_network, "FocalNet", image_size=64, embed_dim=32, depths=[1, 1, 1, 1]
    ),
    "gemma": lambda: decoder_network("Gemma2", **GROUPED),
    "gemma3": lambda: decoder_network(
        "Gemma3Text", kind="Gemma3", head_dim=64, num_key_value_heads=1
    ),
    "glpn": of(
        image_network, "GLPN", "ForDepthEstimation", "predicted_depth", depths=[1, 1, 1, 1]
    ),
    "googlenet": lambda: vision_network(
        torchvision.models.googlenet(weights=None, init_weights=False)
    ),
    "gpt-bigcode": lambda: decoder_network(
        "GPTBigCode", n_embd=256, n_layer=3, n_head=4, n_inner=512
    ),
    "gpt-neo": lambda: decoder_network(
        "GPTNeo", attention_types=[[["global"], 1], [["local"], 2]]
    ),
    "gpt-neox": lambda: decoder_network("GPTNeoX"),
    "gpt-neox-cache": lambda: cached_decoder("GPTNeoX", 4, 64),
    "gptj-cache": lambda: cached_decoder("GPTJ", 4, 64, 2, n_inner=512, rotary_dim=16),
    "granite-cache": lambda: cached_decoder("Granite", 2, 64, 2, num_key_value_heads=2),
    "hubert": of(audio_network, "Hubert", **SPEECH),
    "inception": lambda: vision_network(
        torchvision.models.inception_v3(weights=None, init_weights=False), size=96
    ),
    "longformer": of(text_network, "Longformer", **WORDS, attention_window=16),
    "mamba": lambda: decoder_network("Mamba", hidden_size=128, num_hidden_layers=2),
    "mistral": lambda: decoder_network("Mistral", **GROUPED),
    "mixtral": lambda: decoder_network(
        "Mixtral",
        num_key_value_heads=2,
        num_local_experts=4,
        intermediate_size=256,
        experts_implementation="batched_mm",
    ),
    "mobilevit": of(image_network, "MobileViT", image_size=64),
    "mpnet": of(text_network, "MPNet", **WORDS),
    "olmo-cache": lambda: cached_decoder("Olmo2", 2, 64, num_key_value_heads=2),
    "opt": lambda: decoder_network("OPT", ffn_dim=1024, word_embed_proj_dim=256),
    "opt-cache": lambda: cached_decoder("OPT", 4, 64, ffn_dim=512, word_embed_proj_dim=256),
    "phi": lambda: decoder_network("Phi"),
    "phi3-cache": lambda: cached_decoder("Phi3", 2, 64, num_key_value_heads=2, pad_token_id=0),
    "pvt": of(image_network, "Pvt", image_size=64, **DEPTHS),
    "qwen": lambda: decoder_network("Qwen2", num_key_value_heads=2),
    "qwen3": lambda: decoder_network("Qwen3", num_key_value_heads=2, head_dim=64),
    "regnet": lambda: vision_network(torchvision.models.regnet_y_400mf(weights=None)),
    "resnext": lambda: vision_network(torchvision.models.resnext50_32x4d(weights=None)),
    "roberta": of(text_network, "Roberta", **WORDS),
    "roformer": of(text_network, "RoFormer", **WORDS, embedding_size=256),
    "segformer": of(
        image_network, "Segformer", "ForSemanticSegmentation", LOGITS, depths=[1, 1, 1, 1]
    ),
    "shufflenet": lambda: vision_network(torchvision.models.shufflenet_v2_x1_0(weights=None)),
    "siglip": of(image_network, "SiglipVision", **SIZES, image_size=64, patch_size=8),
    "squeezebert": of(text_network, "SqueezeBert", **WORDS, embedding_size=256),
    "t5-small": _t5,
    "vit-mae": of(image_network, "ViT", **WIDE, image_size=64, patch_size=8),
    "wav2vec2": of(audio_network, "Wav2Vec2", "ForCTC", LOGITS, **SPEECH),
    "yolos": of(
        image_network,
        "Yolos",
        "ForObjectDetection",
        LOGITS,
        **SIZES,
        image_size=[64, 64],
        patch_size=8,
        num_detection_tokens=10,
    ),
    **networks.FAMILIES,
}


def main() -> None:
    """Export the families that are named, or all, by both exporters; say what failed.

    ``--fixed`` exports them with the sizes of the example, and ends their names in ``-fixed``.
    """
    folder, *names = (word for word in sys.argv[1:] if word != "--fixed")
    fixed = "--fixed" in sys.argv
    child.NETWORKS |= FAMILIES
    for name in names or FAMILIES:
        for exporter in child.OPSETS:
            out = Path(folder) / f"{name}-{exporter}{'-fixed' if fixed else ''}.onnx"
            if out.exists():
                continue
            try:
                child.export(name, exporter, out, fixed=fixed)
                print(out.name, out.stat().st_size, flush=True)
            except Exception as error:  # an exporter may fail in any way
                out.unlink(missing_ok=True)
                print(out.name, type(error).__name__, str(error)[:150], flush=True)


if __name__ == "__main__":
    main()
