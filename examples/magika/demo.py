"""Names the types of files with magika on the simulated C7x, and compares every answer with onnxruntime.

Feature extraction follows the network's published description: the first and the last 1,024 bytes of a file's first and
last 4,096, without leading or trailing white space, padded with the token 256 (`config.min.json` beside the model).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

TOLERANCE = 1e-4


def features(path: Path, config: dict) -> np.ndarray:
    """What the network looks at: int32[1, beg_size + end_size]."""
    block, pad = config["block_size"], config["padding_token"]
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(block).lstrip()[: config["beg_size"]]
        file.seek(max(size - block, 0))
        tail = file.read(block).rstrip()[-config["end_size"] :]
    beg = list(head) + [pad] * (config["beg_size"] - len(head))
    end = [pad] * (config["end_size"] - len(tail)) + list(tail)
    return np.array([beg + end], dtype=np.int32)


def on_device(outboard: str, module: str, x: np.ndarray, folder: Path) -> tuple[np.ndarray, dict, float]:
    """Runs the module on the simulated C7x: the output, the program's report, and the whole call's milliseconds."""
    np.save(folder / "x.npy", x)
    command = [outboard, "run", module, "--input", str(folder / "x.npy"), "--output", str(folder / "y.npy"), "--json"]
    start = time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    elapsed = (time.perf_counter() - start) * 1e3
    if ran.returncode != 0:
        sys.exit(f"outboard run failed with status {ran.returncode}:\n{ran.stderr}")
    return np.load(folder / "y.npy"), json.loads(ran.stdout), elapsed


def main() -> int:
    """Prints one row a file; 0 when the device agrees with onnxruntime on all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outboard", required=True, help="the outboard program")
    parser.add_argument("--module", required=True, help="the device module")
    parser.add_argument("--model", required=True, help="the ONNX file it was built from")
    parser.add_argument("--config", required=True, help="the network's config.min.json")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()

    missing = [str(path) for path in arguments.files if not path.is_file()]
    if missing:
        sys.exit(f"not a file: {', '.join(missing)}")
    config = json.loads(Path(arguments.config).read_text(encoding="utf-8"))
    labels = config["target_labels_space"]
    reference = onnxruntime.InferenceSession(arguments.model, providers=["CPUExecutionProvider"])
    name = reference.get_inputs()[0].name

    print(f"{'file':<44} {'type':<12} {'confidence':>10}  {'agreement':<22} {'call ms':>8} {'cycles':>12}")
    disagreements = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in arguments.files:
            x = features(path, config)
            got, report, elapsed = on_device(arguments.outboard, arguments.module, x, Path(folder))
            expected = reference.run(None, {name: x})[0]
            difference = float(np.max(np.abs(got - expected) / np.maximum(np.abs(expected), 1e-3)))
            agrees = got.argmax() == expected.argmax() and difference <= TOLERANCE
            disagreements += not agrees
            verdict = f"{'yes' if agrees else 'NO'} (max diff {difference:.1e})"
            shown = str(path) if len(str(path)) <= 44 else "…" + str(path)[-43:]
            print(
                f"{shown:<44} {labels[int(got.argmax())]:<12} {float(got.max()):>9.1%}  {verdict:<22}"
                f" {elapsed:>8.1f} {report['cycles']:>12,}"
            )
    if disagreements:
        print(f"{disagreements} of {len(arguments.files)} answers differ from onnxruntime's", file=sys.stderr)
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
