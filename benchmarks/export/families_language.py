"""More families of the Transformers library that read words or sound, in small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# isort: split

# isort: split
import transformers as t

from benchmarks.export.network import Network, Outputs, ids
from benchmarks.export.small import (
    BATCH,
    HIDDEN,
    IMAGES,
    LOGITS,
    SIZES,
    TOKENS,
    WORDS,
    decoder_network,
    text_network,
)
from benchmarks.export.text import Cached

PAST = 16
SPEECH = {**SIZES, "vocab_size": 32, "conv_dim": (64,) * 7}
ALL = {"hidden_size": 256, "n_layer": 3, "n_head": 4, "vocab_size": 1000}


def cached_decoder(kind: str, heads: int, size: int, layers: int = 3, **given: Any) -> Network:
    """Return a decoder that takes keys and values of the past, and returns longer ones.

    Args:
        kind: The model's name in the Transformers library, without ``Config``.
        heads: How many heads keys and values have.
        size: How many channels each head has.
        layers: How many layers the decoder has.
        given: More settings of its configuration.
    """
    config = getattr(t, f"{kind}Config")(**{**WORDS, "num_hidden_layers": layers, **given})
    model = Cached(getattr(t, f"{kind}ForCausalLM")(config))
    shape = (BATCH, heads, PAST, size)
    past = tuple((torch.randn(shape), torch.randn(shape)) for _ in range(layers))
    parts = [f"{layer}_{part}" for layer in range(layers) for part in ("key", "value")]
    inputs = ["input_ids", "attention_mask", *(f"past_{part}" for part in parts)]
    outputs = ["logits", *(f"present_{part}" for part in parts)]
    axes = {"input_ids": TOKENS, "logits": TOKENS, "attention_mask": {0: "batch", 1: "total"}}
    axes |= {f"past_{part}": {0: "batch", 2: "past"} for part in parts}
    axes |= {f"present_{part}": {0: "batch", 2: "total"} for part in parts}
    mask = torch.ones(BATCH, PAST + 4, dtype=torch.int64)
    return Network(model, (ids(1000, BATCH, 4), mask, past), inputs, outputs, axes)


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


def _perceiver() -> Network:
    config = t.PerceiverConfig(
        num_latents=32,
        d_latents=256,
        d_model=128,
        num_blocks=1,
        num_self_attends_per_block=2,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
        vocab_size=1000,
        max_position_embeddings=64,
    )
    model = t.PerceiverForSequenceClassification(config)
    named = Outputs(model, ["inputs", "attention_mask"], [LOGITS])
    args = (ids(1000, BATCH, 64), torch.ones(BATCH, 64, dtype=torch.int64))
    axes = dict.fromkeys(("inputs", "attention_mask", LOGITS), IMAGES)
    return Network(named, args, ["inputs", "attention_mask"], [LOGITS], axes)


def _spectrogram() -> Network:
    config = t.ASTConfig(**SIZES, max_length=64, num_mel_bins=32)
    named = Outputs(t.ASTModel(config), ["input_values"], [HIDDEN])
    axes = {"input_values": IMAGES, HIDDEN: IMAGES}
    return Network(named, (torch.randn(BATCH, 64, 32),), ["input_values"], [HIDDEN], axes)


FAMILIES: dict[str, Callable[[], Network]] = {
    "ast": lambda: _spectrogram(),
    "bigbird": lambda: text_network(
        t.BigBirdModel(t.BigBirdConfig(**WORDS, attention_type="original_full")), HIDDEN
    ),
    "bloom": lambda: decoder_network("Bloom", **ALL),
    "conformer": lambda: audio_network(
        t.Wav2Vec2ConformerForCTC(
            t.Wav2Vec2ConformerConfig(**SPEECH, position_embeddings_type="rotary")
        ),
        LOGITS,
    ),
    "convbert": lambda: text_network(
        t.ConvBertModel(t.ConvBertConfig(**WORDS, embedding_size=256)), HIDDEN
    ),
    "falcon": lambda: decoder_network(
        "Falcon", new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=512
    ),
    "fnet": lambda: text_network(t.FNetModel(t.FNetConfig(**WORDS)), HIDDEN),
    "funnel": lambda: text_network(
        t.FunnelModel(
            t.FunnelConfig(
                vocab_size=1000,
                d_model=128,
                n_head=2,
                d_head=64,
                d_inner=256,
                block_sizes=[1, 1],
                num_decoder_layers=1,
            )
        ),
        HIDDEN,
    ),
    "gemma3": lambda: decoder_network(
        "Gemma3Text", kind="Gemma3", head_dim=64, num_key_value_heads=1
    ),
    "gpt-neo": lambda: decoder_network(
        "GPTNeo", attention_types=[[["global"], 1], [["local"], 2]]
    ),
    "gpt-neox-cache": lambda: cached_decoder("GPTNeoX", 4, 64),
    "hubert": lambda: audio_network(t.HubertModel(t.HubertConfig(**SPEECH)), HIDDEN),
    "longformer": lambda: text_network(
        t.LongformerModel(t.LongformerConfig(**WORDS, attention_window=16)), HIDDEN
    ),
    "mixtral": lambda: decoder_network(
        "Mixtral",
        num_key_value_heads=2,
        num_local_experts=4,
        intermediate_size=256,
        experts_implementation="batched_mm",
    ),
    "mobilebert": lambda: text_network(
        t.MobileBertModel(
            t.MobileBertConfig(
                vocab_size=1000,
                num_hidden_layers=3,
                hidden_size=128,
                intra_bottleneck_size=128,
                embedding_size=128,
            )
        ),
        HIDDEN,
    ),
    "mpnet": lambda: text_network(t.MPNetModel(t.MPNetConfig(**WORDS)), HIDDEN),
    "olmo-cache": lambda: cached_decoder("Olmo2", 2, 64, num_key_value_heads=2),
    "opt-cache": lambda: cached_decoder("OPT", 4, 64, ffn_dim=512, word_embed_proj_dim=256),
    "perceiver": _perceiver,
    "phi3-cache": lambda: cached_decoder("Phi3", 2, 64, num_key_value_heads=2, pad_token_id=0),
    "qwen3": lambda: decoder_network("Qwen3", num_key_value_heads=2, head_dim=64),
    "roformer": lambda: text_network(
        t.RoFormerModel(t.RoFormerConfig(**WORDS, embedding_size=256)), HIDDEN
    ),
    "squeezebert": lambda: text_network(
        t.SqueezeBertModel(t.SqueezeBertConfig(**WORDS, embedding_size=256)), HIDDEN
    ),
    "t5-small": _t5,
    "xlnet": lambda: text_network(
        t.XLNetModel(
            t.XLNetConfig(
                vocab_size=1000,
                d_model=256,
                n_layer=3,
                n_head=4,
                d_inner=512,
                use_mems_eval=False,
            )
        ),
        HIDDEN,
    ),
}
