"""The other shrinkers, at pinned versions in one virtual environment, and how to run each on a model."""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from environments import SetupError, environment, run

# scs4onnx declares nothing of what it imports: onnx, onnx_graphsurgeon and numpy are named for it.
REQUIREMENTS = (
    "scs4onnx==1.0.18",
    "onnx_shrink_ray==0.0.11",
    "onnxsim==0.8.1",
    "onnxslim==0.1.98",
    "onnxoptimizer==0.4.2",
    "onnxruntime==1.31.1",
    "onnx==1.23.2",
    "onnx_graphsurgeon==0.6.1",
    "onnx_ir==1.1.0",
    "polygraphy==0.53.6",
    "numpy==2.4.6",
)
# What it brings is large, so it has an environment of its own.
NNCF = ("nncf==3.4.0", "onnxconverter-common==1.16.0", "onnxruntime==1.31.1", "onnx==1.23.2", "numpy==2.4.6")
INPUTS = "--inputs"  # stands for the inputs that a setting looks at


def python_of(peer: str) -> Path:
    """The Python that has this peer; none of them clash, so they share one."""
    if peer not in COMMANDS:
        raise SetupError(f"no peer is called {peer!r}; there are {', '.join(COMMANDS)}")
    return environment("peers", REQUIREMENTS)


def command(peer: str, source: Path, target: Path) -> list[str]:
    """The command line with which `peer` turns `source` into `target`; build it before the clock starts."""
    python = python_of(peer)
    return COMMANDS[peer](python, source, target)


def _scs4onnx(python: Path, source: Path, target: Path) -> list[str]:
    return [str(python.with_name("scs4onnx")), "--non_verbose", str(source), str(target)]


def _shrink_ray(python: Path, source: Path, target: Path, *options: str) -> list[str]:
    # It names its output after its input, so the input gets a link that is named like the target.
    link = target.parent / "shrink-ray-input" / target.name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(source.resolve())
    options = ("--action", "integer_weights", *(options or ("--per-channel",)))
    output = ["--output_dir", str(target.parent), "--output_suffix", target.suffix]
    return [str(python), "-m", "onnx_shrink_ray.shrink", *options, *output, str(link)]


def _onnxslim(python: Path, source: Path, target: Path) -> list[str]:
    return [str(python.with_name("onnxslim")), str(source), str(target)]


def _onnxsim(python: Path, source: Path, target: Path, *options: str) -> list[str]:
    return [str(python.with_name("onnxsim")), *options, str(source), str(target)]


def _onnxoptimizer(python: Path, source: Path, target: Path) -> list[str]:
    return [str(python), "-m", "onnxoptimizer", str(source), str(target)]


def _quantize_dynamic(python: Path, source: Path, target: Path, options: str = "") -> list[str]:
    call = (
        "import sys; from onnxruntime.quantization import QuantType, quantize_dynamic;"
        f" quantize_dynamic(*sys.argv[1:], {options})"
    )
    return [str(python), "-c", call, str(source), str(target)]


def _preprocessed(python: Path, source: Path, target: Path, options: str) -> list[str]:
    """After the preparation that onnxruntime's own guide asks for, which also finds weights in Constants."""
    call = (
        "import sys, onnx; from onnxruntime.quantization import QuantType, quantize_dynamic;"
        " from onnxruntime.quantization.shape_inference import quant_pre_process;"
        " prepared = sys.argv[2] + '.prepared';"
        " quant_pre_process(sys.argv[1], prepared, skip_symbolic_shape=True);"
        f" quantize_dynamic(onnx.load(prepared), sys.argv[2], {options})"
    )
    return [str(python), "-c", call, str(source), str(target)]


def _onnxsim_rounding(python: Path, source: Path, target: Path, *options: str) -> list[str]:
    script = Path(__file__).with_name("onnxsim_rounding.py")
    return [str(python), str(script), str(source), str(target), *options]


def _nncf(_: Path, source: Path, target: Path, options: str) -> list[str]:
    """Weight compression of the ONNX backend, without data, in an opset that has what it writes."""
    call = (
        "import sys, nncf, onnx; from nncf import CompressWeightsMode as Mode, AdvancedCompressionParameters;"
        " from nncf.quantization.advanced_parameters import GroupSizeFallbackMode as Fallback;"
        " from onnx.version_converter import convert_version; model = onnx.load(sys.argv[1]);"
        " opset = next(one.version for one in model.opset_import if not one.domain);"
        " model = convert_version(model, 21) if opset < 13 else model;"
        f" made = nncf.compress_weights(model, {options}); onnx.save(made, sys.argv[2])"
    )
    return [str(environment("nncf", NNCF)), "-c", call, str(source), str(target)]


def _float16(_: Path, source: Path, target: Path) -> list[str]:
    call = (
        "import sys, onnx; from onnxconverter_common.float16 import convert_float_to_float16 as convert;"
        " onnx.save(convert(onnx.load(sys.argv[1]), keep_io_types=True), sys.argv[2])"
    )
    return [str(environment("nncf", NNCF)), "-c", call, str(source), str(target)]


def _onnx_ir(python: Path, source: Path, target: Path) -> list[str]:
    """Its passes that shrink without rounding, in one sequence; it has no command line of its own."""
    shrinking = ("DeduplicateInitializers", "CommonSubexpressionElimination", "RemoveUnusedNodes")
    tidying = ("RemoveUnusedFunctions", "RemoveUnusedOpsets", "ClearMetadataAndDocString")
    made = ", ".join(f"common.{name}Pass()" for name in (*shrinking, *tidying))
    call = (
        f"import sys, onnx_ir; from onnx_ir.passes import Sequential, common; passes = Sequential({made});"
        " onnx_ir.save(passes(onnx_ir.load(sys.argv[1])).model, sys.argv[2])"
    )
    return [str(python), "-c", call, str(source), str(target)]


COMMANDS: dict[str, Callable[[Path, Path, Path], list[str]]] = {
    "scs4onnx": _scs4onnx,
    "onnx_shrink_ray": _shrink_ray,
    "onnxslim": _onnxslim,
    "onnxsim": _onnxsim,
    "onnxoptimizer": _onnxoptimizer,
    "quantize_dynamic": _quantize_dynamic,
    "onnx_ir": _onnx_ir,
}
_SMALLER = "advanced_parameters=AdvancedCompressionParameters(group_size_fallback_mode=Fallback.ADJUST)"
_BRANCHES = "extra_options={'EnableSubgraph': True}"
# What peers have for storing weights in fewer bits: a peer, and the settings that are worth a try.
ROUNDING: dict[str, tuple[Callable[..., list[str]], tuple[str, ...]]] = {
    "onnx_shrink_ray, per channel": (_shrink_ray, ("--per-channel",)),
    "onnx_shrink_ray, per tensor": (_shrink_ray, ("--weight-type", "uint8")),
    "quantize_dynamic": (_quantize_dynamic, ("",)),
    "quantize_dynamic, uint8": (_quantize_dynamic, ("per_channel=True, weight_type=QuantType.QUInt8",)),
    "quantize_dynamic, subgraphs": (_quantize_dynamic, (f"per_channel=True, {_BRANCHES}",)),
    "quantize_dynamic, prepared": (_preprocessed, ("per_channel=True, weight_type=QuantType.QUInt8",)),
    "onnxsim, int8": (_onnxsim_rounding, ("--weight-only-quantize",)),
    "onnxsim, int8 blocks": (_onnxsim_rounding, ("--weight-only-quantize-int8-block",)),
    "onnxsim, int4": (_onnxsim_rounding, ("--weight-only-quantize-int4",)),
    "onnxsim, fp16": (_onnxsim_rounding, ("--fp16-quantize",)),
    "onnxsim, int4 and fp16": (_onnxsim_rounding, ("--weight-only-quantize-int4", "--fp16-quantize")),
    "onnxsim, int4 by GPTQ": (_onnxsim_rounding, ("--gptq", INPUTS)),
    "onnxsim, half int8, else int4": (_onnxsim_rounding, ("--high-bits=0.5", INPUTS)),
    "onnxsim, most int8, else int4": (_onnxsim_rounding, ("--high-bits=0.75", INPUTS)),
    "nncf, int8": (_nncf, ("mode=Mode.INT8_ASYM",)),
    "nncf, int4": (_nncf, (f"mode=Mode.INT4_ASYM, group_size=32, all_layers=True, {_SMALLER}",)),
    "nncf, half int4, else int8": (_nncf, (f"mode=Mode.INT4_ASYM, group_size=32, ratio=0.5, {_SMALLER}",)),
    "onnxconverter-common, fp16": (_float16, ()),
}


def rounding_command(name: str, source: Path, target: Path, inputs: Sequence[Path] = ()) -> list[str]:
    """The command line of a setting; `inputs` are for those that look at data."""
    make, options = ROUNDING[name]
    given = f"--inputs={','.join(map(str, inputs))}"
    options = tuple(given if option == INPUTS else option for option in options)
    return make(environment("peers", REQUIREMENTS), source, target, *options)


def rounding_identity(name: str) -> str:
    """All that what it makes hangs on: how it is called, and the versions of everything beside it."""
    make, options = ROUNDING[name]
    text = [inspect.getsource(make), *options, *(NNCF if make in (_nncf, _float16) else REQUIREMENTS)]
    if make is _onnxsim_rounding:
        text.append(Path(__file__).with_name("onnxsim_rounding.py").read_text())
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def looks_at_data(name: str) -> bool:
    return INPUTS in ROUNDING[name][1]


PACKAGES = {"quantize_dynamic": "onnxruntime"}  # where a peer is not a package of its own


def main(argv: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(description=__doc__).parse_args(argv)
    try:
        for peer in COMMANDS:
            listing = run([python_of(peer), "-m", "pip", "list", "--format", "json"])
            versions = {row["name"].replace("-", "_"): row["version"] for row in json.loads(listing)}
            print(f"{peer} {versions[PACKAGES.get(peer, peer)]}")
    except SetupError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
