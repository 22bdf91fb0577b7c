"""Round a model with onnxsim, in an environment that has it, and drop the weights that it leaves unused.

onnxsim_rounding.py SOURCE TARGET [--high-bits SHARE | --gptq] [--inputs A.npz,B.npz] [options of onnxsim]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

OPSET = ("--target-opset", "21")  # what blocks and 4 bits need; most models are older
ONE_FILE = ("--external-data-threshold", "2GB")


def onnxsim(source: Path, target: Path, *options: str) -> None:
    command = [sys.executable, "-m", "onnxsim", *options, *ONE_FILE, str(source), str(target)]
    subprocess.run(command, check=True)


def round_by_data(path: Path, high_bits: float | None, inputs: Sequence[Path]) -> None:
    """Round to 4 bits, with a share of the layers in 8 bits, or so that errors make up for each other."""
    import numpy as np
    import onnx
    import onnxsim as library  # type: ignore[import-not-found, unused-ignore]

    feeds = [dict(np.load(file)) for file in inputs]
    model = onnx.load(path)
    if high_bits is None:
        rounded = library.apply_gptq_cpp(model, library.quantize_weight_only_int4(model), feeds)
    else:
        rounded = library.apply_mixed_precision_quantization(model, feeds, high_bits_fraction=high_bits)
    onnx.save(rounded, path)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--high-bits", type=float)
    parser.add_argument("--gptq", action="store_true")
    parser.add_argument("--inputs", default="")
    args, options = parser.parse_known_args(argv)
    with tempfile.TemporaryDirectory(dir=args.target.parent) as folder:
        simple = Path(folder) / "simple.onnx"
        try:
            onnxsim(args.source, simple, *options, *OPSET)
        except subprocess.CalledProcessError:
            onnxsim(args.source, simple, *options)
        if args.gptq or args.high_bits is not None:
            round_by_data(simple, args.high_bits, [Path(file) for file in args.inputs.split(",")])
        try:
            onnxsim(simple, args.target, "--skip-constant-folding")
        except subprocess.CalledProcessError:
            simple.replace(args.target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
