"""What ``build_an_engine.py`` changes of TensorRT's network and configuration."""

from typing import Any


def name_layers(trt: Any, network: Any) -> None:
    """Number the layers in their names, so that a profile distinguishes them."""
    for index in range(network.num_layers):
        network.get_layer(index).name = f"{index}: {network.get_layer(index).name}"


def spend_little(trt: Any, config: Any) -> None:
    """Build in a hurry."""
    config.builder_optimization_level = 0
