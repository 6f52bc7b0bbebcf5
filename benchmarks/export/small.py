"""How networks of the Transformers library and of torchvision are exported in small."""

from __future__ import annotations

from typing import Any

import torch
import transformers as t

from benchmarks.export.network import Network, Outputs, ids

BATCH, LENGTH = 2, 48
TOKENS = {0: "batch", 1: "sequence"}
IMAGES = {0: "batch"}
WIDE = {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZES = {**WIDE, "intermediate_size": 1024}
WORDS = {**SIZES, "vocab_size": 1000}
HIDDEN, LOGITS = "last_hidden_state", "logits"


def text_network(model: torch.nn.Module, *taken: str, **dynamic: Any) -> Network:
    """Return a model that reads words.

    Args:
        model: A model of the Transformers library.
        taken: Names of its results that become outputs.
        dynamic: Names of the dynamic axes of a result, if not batch and sequence.
    """
    names = ["input_ids", "attention_mask"]
    args = (ids(1000, BATCH, LENGTH), torch.ones(BATCH, LENGTH, dtype=torch.int64))
    axes = dict.fromkeys(names, TOKENS) | {name: dynamic.get(name, TOKENS) for name in taken}
    return Network(Outputs(model, names, taken), args, names, taken, axes)


def image_network(model: torch.nn.Module, taken: str, size: int = 64) -> Network:
    """Return a model of the Transformers library that reads square images.

    Args:
        model: The model.
        taken: Name of its result that becomes the output.
        size: Height and width of the images in pixels.
    """
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


def vision_network(model: torch.nn.Module, key: str = "", size: int = 96) -> Network:
    """Return a model of torchvision.

    Args:
        model: The model.
        key: Its result, where it returns several by name.
        size: Height and width of the images in pixels.
    """
    args = (torch.randn(BATCH, 3, size, size),)
    return Network(Plain(model, key), args, ["x"], ["y"], {"x": IMAGES, "y": IMAGES})


def decoder_network(config: str, kind: str = "", **given: Any) -> Network:
    """Return a decoder without a cache.

    Args:
        config: Its configuration's name in the Transformers library, without ``Config``.
        kind: The model's own name there, if it is another.
        given: More settings of the configuration.
    """
    made = getattr(t, f"{config}Config")(**{**WORDS, "use_cache": False, **given})
    return text_network(getattr(t, f"{kind or config}ForCausalLM")(made), LOGITS)


def plain_network(module: torch.nn.Module, *args: torch.Tensor, outputs: int = 1) -> Network:
    """Return a network whose first axes are dynamic."""
    inputs = [f"x{i}" for i in range(len(args))]
    taken = [f"y{i}" for i in range(outputs)]
    return Network(module, args, inputs, taken, dict.fromkeys([*inputs, *taken], IMAGES))
