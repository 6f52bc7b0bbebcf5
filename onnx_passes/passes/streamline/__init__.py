"""Passes that move scales and biases until integers stand between thresholds."""
