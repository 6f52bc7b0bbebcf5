"""Models to measure on, built from a seed, so that none has to be downloaded or committed."""

from benchmarks.models.llama import llama_decoder
from benchmarks.models.resnet import resnet50
from benchmarks.models.synthetic import chain, random_graph
from benchmarks.models.transformer import transformer
from benchmarks.models.vision import vision_transformer

__all__ = ["chain", "llama_decoder", "random_graph", "resnet50", "transformer"]
__all__ += ["vision_transformer"]
