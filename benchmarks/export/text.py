"""BERT, GPT-2, a Llama-style decoder, T5 and Whisper."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.cache_utils import DynamicCache

from benchmarks.export.network import Network, Outputs, ids

BATCH, LENGTH, PAST = 2, 24, 16
TOKENS = {0: "batch", 1: "sequence"}


def bert() -> Network:
    """Return BERT-base: 12 layers, 110 million weights."""
    config = transformers.BertConfig()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    model = transformers.BertModel(config)
    args = (
        ids(config.vocab_size, BATCH, LENGTH),
        torch.ones(BATCH, LENGTH, dtype=torch.int64),
        torch.zeros(BATCH, LENGTH, dtype=torch.int64),
    )
    taken = ["last_hidden_state", "pooler_output"]
    dynamic = dict.fromkeys(names, TOKENS) | {taken[0]: TOKENS, taken[1]: {0: "batch"}}
    return Network(Outputs(model, names, taken), args, names, taken, dynamic)


def gpt2() -> Network:
    """Return GPT-2: 12 layers, 124 million weights, without a cache."""
    config = transformers.GPT2Config(use_cache=False)
    return _decoder(transformers.GPT2LMHeadModel(config), config.vocab_size)


def llama() -> Network:
    """Return a Llama-style decoder: 12 layers, 96 million weights, grouped queries."""
    config = transformers.LlamaConfig(
        hidden_size=640,
        intermediate_size=1728,
        num_hidden_layers=12,
        num_attention_heads=10,
        num_key_value_heads=5,
        use_cache=False,
    )
    return _decoder(transformers.LlamaForCausalLM(config), config.vocab_size)


def _decoder(model: torch.nn.Module, vocabulary: int) -> Network:
    names = ["input_ids", "attention_mask"]
    args = (ids(vocabulary, BATCH, LENGTH), torch.ones(BATCH, LENGTH, dtype=torch.int64))
    dynamic = dict.fromkeys([*names, "logits"], TOKENS)
    return Network(Outputs(model, names, ["logits"]), args, names, ["logits"], dynamic)


class Cached(torch.nn.Module):
    """A decoder that is handed keys and values of the past, and returns them longer."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, past: Any) -> Any:
        cache = DynamicCache()
        for layer, (key, value) in enumerate(past):
            cache.update(key, value, layer)
        result = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            past_key_values=cache,
            use_cache=True,
        )
        present = tuple((layer.keys, layer.values) for layer in result.past_key_values.layers)
        return result.logits, present


def gpt2_cached() -> Network:
    """Return GPT-2 with keys and values of the past as inputs, and longer ones as outputs."""
    config = transformers.GPT2Config()
    size = config.n_head, config.n_embd // config.n_head
    model = transformers.GPT2LMHeadModel(config)
    return cached(model, config.n_layer, *size, ids(config.vocab_size, BATCH, 8))


def cached(
    model: torch.nn.Module, layers: int, heads: int, size: int, tokens: torch.Tensor
) -> Network:
    """Return a decoder that takes keys and values of the past, and returns longer ones.

    Args:
        model: A decoder of the Transformers library.
        layers: How many layers it has.
        heads: How many heads keys and values have.
        size: How many channels each head has.
        tokens: What it reads.
    """
    shape = (BATCH, heads, PAST, size)
    past = tuple((torch.randn(shape), torch.randn(shape)) for _ in range(layers))
    parts = [f"{layer}_{part}" for layer in range(layers) for part in ("key", "value")]
    inputs = ["input_ids", "attention_mask", *(f"past_{part}" for part in parts)]
    outputs = ["logits", *(f"present_{part}" for part in parts)]
    axes = {"input_ids": TOKENS, "logits": TOKENS, "attention_mask": {0: "batch", 1: "total"}}
    axes |= {f"past_{part}": {0: "batch", 2: "past"} for part in parts}
    axes |= {f"present_{part}": {0: "batch", 2: "total"} for part in parts}
    mask = torch.ones(BATCH, PAST + tokens.shape[1], dtype=torch.int64)
    return Network(Cached(model), (tokens, mask, past), inputs, outputs, axes)


def t5() -> Network:
    """Return T5-small: encoder and decoder of 6 layers, 60 million weights."""
    config = transformers.T5Config(
        num_layers=6, num_heads=8, d_model=512, d_ff=2048, use_cache=False
    )
    model = transformers.T5ForConditionalGeneration(config)
    names = ["input_ids", "attention_mask", "decoder_input_ids"]
    args = (
        ids(config.vocab_size, BATCH, LENGTH),
        torch.ones(BATCH, LENGTH, dtype=torch.int64),
        ids(config.vocab_size, BATCH, 8),
    )
    target = {0: "batch", 1: "target"}
    dynamic = {names[0]: TOKENS, names[1]: TOKENS, names[2]: target, "logits": target}
    return Network(Outputs(model, names, ["logits"]), args, names, ["logits"], dynamic)


def whisper() -> Network:
    """Return Whisper-tiny: encoder and decoder of 4 layers, 38 million weights."""
    config = transformers.WhisperConfig(
        d_model=384,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        use_cache=False,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    names = ["input_features", "decoder_input_ids", "decoder_attention_mask"]
    args = (
        torch.randn(BATCH, config.num_mel_bins, 3000),
        ids(config.vocab_size, BATCH, 8),
        torch.ones(BATCH, 8, dtype=torch.int64),
    )
    target = {0: "batch", 1: "target"}
    dynamic = {names[0]: {0: "batch"}, names[1]: target, names[2]: target, "logits": target}
    return Network(Outputs(model, names, ["logits"]), args, names, ["logits"], dynamic)
