"""How fast generated code is: networks with random weights, beside onnxruntime and TVM's own virtual machine.

The command is ``python -m outboard.bench``; ``cargo xtask bench-models`` calls it. Figures are ratios of one run.
"""
