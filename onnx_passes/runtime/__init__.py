"""The engines that run a model."""
