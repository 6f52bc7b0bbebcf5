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

# isort: split
from benchmarks.export import torchvision_operators as torchvision_operators

# isort: split
import torchvision
import transformers as t
from torchvision.models.detection import _utils as _utils  # the operators of a detector

from benchmarks.export import child
from benchmarks.export.network import Network, Outputs, ids

BATCH, LENGTH = 2, 48
TOKENS = {0: "batch", 1: "sequence"}
IMAGES = {0: "batch"}
WIDE = {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZES = {**WIDE, "intermediate_size": 1024}
WORDS = {**SIZES, "vocab_size": 1000}
HIDDEN, LOGITS = "last_hidden_state", "logits"


def _text(model: torch.nn.Module, *taken: str, **dynamic: Any) -> Network:
    names = ["input_ids", "attention_mask"]
    args = (ids(1000, BATCH, LENGTH), torch.ones(BATCH, LENGTH, dtype=torch.int64))
    axes = dict.fromkeys(names, TOKENS) | {name: dynamic.get(name, TOKENS) for name in taken}
    return Network(Outputs(model, names, taken), args, names, taken, axes)


def _image(model: torch.nn.Module, taken: str, size: int = 64) -> Network:
    named = Outputs(model, ["pixel_values"], [taken])
    args = (torch.randn(BATCH, 3, size, size),)
    axes = {"pixel_values": IMAGES, taken: IMAGES}
    return Network(named, args, ["pixel_values"], [taken], axes)


class Plain(torch.nn.Module):
    """A network of torchvision, or of this file, whose result is a tensor."""

    def __init__(self, model: torch.nn.Module, key: str = "") -> None:
        super().__init__()
        self.model, self.key = model, key

    def forward(self, x: torch.Tensor) -> Any:
        result = self.model(x)
        return result[self.key] if self.key else result


def _vision(model: torch.nn.Module, key: str = "", size: int = 96) -> Network:
    args = (torch.randn(BATCH, 3, size, size),)
    return Network(Plain(model, key), args, ["x"], ["y"], {"x": IMAGES, "y": IMAGES})


class Tagger(torch.nn.Module):
    """An embedding, a recurrent network in both directions, and a score for each word."""

    def __init__(self, kind: type[torch.nn.RNNBase], layers: int) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(1000, 128)
        self.inner = kind(128, 96, num_layers=layers, bidirectional=True, batch_first=True)
        self.normal = torch.nn.LayerNorm(192)
        self.scores = torch.nn.Linear(192, 12)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.scores(self.normal(self.inner(self.words(words))[0]))


def _tagger(kind: type[torch.nn.RNNBase], layers: int) -> Network:
    axes = {"words": IMAGES, "scores": IMAGES}
    args = (ids(1000, BATCH, 24),)
    return Network(Tagger(kind, layers), args, ["words"], ["scores"], axes)


class Mixer(torch.nn.Module):
    """Layers of torch itself: an encoder with a mask, and heads for two tasks."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(
            256, 4, 512, batch_first=True, norm_first=True
        )
        self.inner = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.scores = torch.nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.inner(x).mean(1))


def _mixer() -> Network:
    args, axes = (torch.randn(BATCH, 32, 256),), {"x": IMAGES, "y": IMAGES}
    return Network(Mixer(), args, ["x"], ["y"], axes)


def _clip() -> Network:
    config = t.CLIPTextConfig(**WORDS, eos_token_id=2)
    return _text(t.CLIPTextModel(config), HIDDEN)


def _wav() -> Network:
    config = t.Wav2Vec2Config(**SIZES, vocab_size=32, conv_dim=(64,) * 7)
    named = Outputs(t.Wav2Vec2ForCTC(config), ["input_values"], [LOGITS])
    args = (torch.randn(BATCH, 8000),)
    axes = {"input_values": IMAGES, LOGITS: IMAGES}
    return Network(named, args, ["input_values"], [LOGITS], axes)


def _decoder(kind: str, **given: Any) -> Network:
    config = getattr(t, f"{kind}Config")(**{**WORDS, "use_cache": False, **given})
    return _text(getattr(t, f"{kind}ForCausalLM")(config), LOGITS)


GROUPED = {"num_key_value_heads": 2, "head_dim": 64}

FAMILIES: dict[str, Callable[[], Network]] = {
    "albert": lambda: _text(t.AlbertModel(t.AlbertConfig(**WORDS)), HIDDEN),
    "bart": lambda: _text(
        t.BartModel(
            t.BartConfig(
                vocab_size=1000,
                d_model=256,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=512,
                decoder_ffn_dim=512,
                use_cache=False,
            )
        ),
        HIDDEN,
    ),
    "beit": lambda: _image(t.BeitModel(t.BeitConfig(**SIZES, image_size=64)), HIDDEN),
    "bert-mid": lambda: _text(t.BertModel(t.BertConfig(**WORDS)), HIDDEN),
    "clip-text": _clip,
    "clip-vision": lambda: _image(
        t.CLIPVisionModel(t.CLIPVisionConfig(**SIZES, image_size=64, patch_size=8)), HIDDEN
    ),
    "convnext-t": lambda: _vision(torchvision.models.convnext_tiny(weights=None)),
    "deberta": lambda: _text(
        t.DebertaV2Model(
            t.DebertaV2Config(
                **WORDS,
                relative_attention=True,
                position_buckets=32,
                pos_att_type=["p2c", "c2p"],
                max_relative_positions=64,
            )
        ),
        HIDDEN,
    ),
    "deeplab": lambda: _vision(
        torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
            weights=None, weights_backbone=None
        ),
        "out",
    ),
    "dino": lambda: _image(
        t.Dinov2Model(t.Dinov2Config(**WIDE, image_size=64, patch_size=8)), HIDDEN
    ),
    "distilbert": lambda: _text(
        t.DistilBertModel(
            t.DistilBertConfig(
                vocab_size=1000, dim=256, n_layers=3, n_heads=4, hidden_dim=1024
            )
        ),
        HIDDEN,
    ),
    "efficientnet": lambda: _vision(torchvision.models.efficientnet_b0(weights=None)),
    "electra": lambda: _text(
        t.ElectraModel(t.ElectraConfig(**WORDS, embedding_size=128)), HIDDEN
    ),
    "gemma": lambda: _decoder("Gemma2", **GROUPED),
    "gpt-neox": lambda: _decoder("GPTNeoX"),
    "gru": lambda: _tagger(torch.nn.GRU, 2),
    "lstm": lambda: _tagger(torch.nn.LSTM, 2),
    "mamba": lambda: _decoder("Mamba", hidden_size=128, num_hidden_layers=2),
    "mistral": lambda: _decoder("Mistral", **GROUPED),
    "mixer": _mixer,
    "mobilevit": lambda: _image(t.MobileViTModel(t.MobileViTConfig(image_size=64)), HIDDEN),
    "opt": lambda: _decoder("OPT", ffn_dim=1024, word_embed_proj_dim=256),
    "phi": lambda: _decoder("Phi"),
    "qwen": lambda: _decoder("Qwen2", num_key_value_heads=2),
    "regnet": lambda: _vision(torchvision.models.regnet_y_400mf(weights=None)),
    "roberta": lambda: _text(t.RobertaModel(t.RobertaConfig(**WORDS)), HIDDEN),
    "segformer": lambda: _image(
        t.SegformerForSemanticSegmentation(t.SegformerConfig(depths=[1, 1, 1, 1])), LOGITS
    ),
    "shufflenet": lambda: _vision(torchvision.models.shufflenet_v2_x1_0(weights=None)),
    "wav2vec2": _wav,
}


def main() -> None:
    """Export the families that are named, or all, by both exporters; say what failed."""
    folder = Path(sys.argv[1])
    child.NETWORKS |= FAMILIES
    for name in sys.argv[2:] or FAMILIES:
        for exporter in child.OPSETS:
            out = folder / f"{name}-{exporter}.onnx"
            if out.exists():
                continue
            try:
                child.export(name, exporter, out)
                print(out.name, out.stat().st_size, flush=True)
            except Exception as error:  # an exporter may fail in any way
                out.unlink(missing_ok=True)
                print(out.name, type(error).__name__, str(error)[:150], flush=True)


if __name__ == "__main__":
    main()
