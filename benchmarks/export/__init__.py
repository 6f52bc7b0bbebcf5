"""Networks as PyTorch exports them, with random weights, by both of its exporters."""
