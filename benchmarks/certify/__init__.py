"""Yardsticks of ``onnx-passes certify``: rules of others, and rules made wrong on purpose."""
