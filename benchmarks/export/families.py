"""Networks of other families, in small: ``python -m benchmarks.export.families FOLDER``.

Run it in PyTorch's environment. Three layers of 256 channels are enough to see what an
optimiser leaves in each, and to time an inference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

# isort: split

# isort: split
import torchvision
import transformers as t
from torchvision.models.detection import _utils as _utils  # the operators of a detector

from benchmarks.export import (
    child,
    families_control,
    families_images,
    families_language,
    families_libraries,
    families_messages,
    families_recurrence,
    families_sequences,
    families_vision,
)
from benchmarks.export.network import Network, Outputs, ids
from benchmarks.export.small import (
    BATCH,
    HIDDEN,
    IMAGES,
    LOGITS,
    SIZES,
    WIDE,
    WORDS,
    decoder_network,
    image_network,
    text_network,
    vision_network,
)


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
    return text_network(t.CLIPTextModel(config), HIDDEN)


def _wav() -> Network:
    config = t.Wav2Vec2Config(**SIZES, vocab_size=32, conv_dim=(64,) * 7)
    named = Outputs(t.Wav2Vec2ForCTC(config), ["input_values"], [LOGITS])
    args = (torch.randn(BATCH, 8000),)
    axes = {"input_values": IMAGES, LOGITS: IMAGES}
    return Network(named, args, ["input_values"], [LOGITS], axes)


GROUPED = {"num_key_value_heads": 2, "head_dim": 64}

FAMILIES: dict[str, Callable[[], Network]] = {
    "albert": lambda: text_network(t.AlbertModel(t.AlbertConfig(**WORDS)), HIDDEN),
    "bart": lambda: text_network(
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
    "beit": lambda: image_network(t.BeitModel(t.BeitConfig(**SIZES, image_size=64)), HIDDEN),
    "bert-mid": lambda: text_network(t.BertModel(t.BertConfig(**WORDS)), HIDDEN),
    "clip-text": _clip,
    "clip-vision": lambda: image_network(
        t.CLIPVisionModel(t.CLIPVisionConfig(**SIZES, image_size=64, patch_size=8)), HIDDEN
    ),
    "convnext-t": lambda: vision_network(torchvision.models.convnext_tiny(weights=None)),
    "deberta": lambda: text_network(
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
    "deeplab": lambda: vision_network(
        torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
            weights=None, weights_backbone=None
        ),
        "out",
    ),
    "dino": lambda: image_network(
        t.Dinov2Model(t.Dinov2Config(**WIDE, image_size=64, patch_size=8)), HIDDEN
    ),
    "distilbert": lambda: text_network(
        t.DistilBertModel(
            t.DistilBertConfig(
                vocab_size=1000, dim=256, n_layers=3, n_heads=4, hidden_dim=1024
            )
        ),
        HIDDEN,
    ),
    "efficientnet": lambda: vision_network(torchvision.models.efficientnet_b0(weights=None)),
    "electra": lambda: text_network(
        t.ElectraModel(t.ElectraConfig(**WORDS, embedding_size=128)), HIDDEN
    ),
    "gemma": lambda: decoder_network("Gemma2", **GROUPED),
    "gpt-neox": lambda: decoder_network("GPTNeoX"),
    "gru": lambda: _tagger(torch.nn.GRU, 2),
    "lstm": lambda: _tagger(torch.nn.LSTM, 2),
    "mamba": lambda: decoder_network("Mamba", hidden_size=128, num_hidden_layers=2),
    "mistral": lambda: decoder_network("Mistral", **GROUPED),
    "mixer": _mixer,
    "mobilevit": lambda: image_network(
        t.MobileViTModel(t.MobileViTConfig(image_size=64)), HIDDEN
    ),
    "opt": lambda: decoder_network("OPT", ffn_dim=1024, word_embed_proj_dim=256),
    "phi": lambda: decoder_network("Phi"),
    "qwen": lambda: decoder_network("Qwen2", num_key_value_heads=2),
    "regnet": lambda: vision_network(torchvision.models.regnet_y_400mf(weights=None)),
    "roberta": lambda: text_network(t.RobertaModel(t.RobertaConfig(**WORDS)), HIDDEN),
    "segformer": lambda: image_network(
        t.SegformerForSemanticSegmentation(t.SegformerConfig(depths=[1, 1, 1, 1])), LOGITS
    ),
    "shufflenet": lambda: vision_network(torchvision.models.shufflenet_v2_x1_0(weights=None)),
    "wav2vec2": _wav,
}


FAMILIES |= families_language.FAMILIES | families_vision.FAMILIES
FAMILIES |= families_images.FAMILIES | families_sequences.FAMILIES
FAMILIES |= families_recurrence.FAMILIES | families_messages.FAMILIES
FAMILIES |= families_libraries.FAMILIES | families_control.FAMILIES


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
