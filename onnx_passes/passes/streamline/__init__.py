"""Passes that move scales, biases and transpositions until integers stand between thresholds."""
