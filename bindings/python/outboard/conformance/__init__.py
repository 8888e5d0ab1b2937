"""The ONNX project's backend node tests, run on a device: every model is built, loaded, called and compared.

The command is ``python -m outboard.conformance``; ``cargo xtask onnx`` calls it. Reference: docs/reference/models.md.
"""
