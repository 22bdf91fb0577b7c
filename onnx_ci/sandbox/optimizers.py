"""Other libraries that rewrite a whole model; loaded in a child process only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from onnx import AttributeProto, numpy_helper

from onnx_ci.model.graph import RANDOM_OPS, all_nodes, short_constant
from onnx_ci.model.proto import HANDED_LIMIT
from onnx_ci.sandbox.server import runtime_errors

ort.disable_telemetry_events()

MICROSOFT = "com.microsoft"
SAME = ("", "ai.onnx", MICROSOFT)  # domains in which a name means the same
MOST_RUNS = 5  # of one tool on one model
# Of onnxslim. Both take -0.0 for 0.0, and one number for another of the same value; dedupe does not.
UNSAFE_SLIMMING = ["weight_tying", "subexpression_elimination"]
# Of onnxoptimizer. The first takes -0.0 for 0.0; the second two nodes that draw random numbers for one.
DUPLICATES = "eliminate_duplicate_initializer"
COMMON_NODES = "eliminate_common_subexpression"
# Of onnxruntime: what it calls a level, and where a model that was optimized so runs.
LEVELS = {
    "basic": ("ORT_ENABLE_BASIC", ""),
    "extended": ("ORT_ENABLE_EXTENDED", "runs in onnxruntime {} and what is compatible with it"),
    "layout": ("ORT_ENABLE_ALL", "runs in onnxruntime {} on processors like this one only"),
}
# Each would put something in place of what the fusions of transformers look for.
UNWANTED_OPTIMIZERS = ["ConstantSharing", "MatMulAddFusion"]
FUSED = ("LayerNormalization", "SimplifiedLayerNormalization")  # of the runtime, by standard names


def load(path: Path) -> onnx.ModelProto:
    """The model, unless it has an operator that tools would take for a standard one: few look at domains."""
    model = onnx.load(str(path))
    standard = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    for node in all_nodes(model):
        if node.op_type in standard and node.domain not in SAME:
            raise RuntimeError(f"{node.op_type} of {node.domain} has the name of a standard operator")
    return model


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write the model, past protobuf's limit with data beside it."""
    if model.ByteSize() <= HANDED_LIMIT:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return
    onnx.save(model, str(path), save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)


def until_settled(
    tool: Callable[[onnx.ModelProto], onnx.ModelProto], model: onnx.ModelProto
) -> onnx.ModelProto:
    """Run a tool until it makes the model no smaller, so that running it once more changes nothing."""
    best = tool(model)
    for _ in range(MOST_RUNS - 1):
        again = onnx.ModelProto()
        again.CopyFrom(best)  # tools edit what they are given
        again = tool(again)
        if again.ByteSize() >= best.ByteSize():
            break
        best = again
    return best


def simplify(source: Path, target: Path, options: dict[str, Any]) -> str:
    """onnxslim or onnxsim."""
    engine = {"onnxslim": _onnxslim, "onnxsim": _onnxsim}[options["engine"]]
    save(until_settled(engine, load(source)), target)
    return ""


def _onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxslim

    # It makes double numbers of `value_float`, and then nothing fits: Constants in short become tensors.
    for node in all_nodes(model):
        values = short_constant(node)
        if values is not None:
            del node.attribute[:]
            tensor = numpy_helper.from_array(values)
            node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
    made: onnx.ModelProto | None = onnxslim.slim(model, skip_optimizations=UNSAFE_SLIMMING)
    if made is None:
        raise RuntimeError("onnxslim gave nothing back")
    return made


def _onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxsim

    made: onnx.ModelProto = onnxsim.simplify(model)[0]
    return made


def optimize(source: Path, target: Path, options: dict[str, Any]) -> str:
    """onnxoptimizer."""
    import onnxoptimizer

    model = load(source)
    passes = options["passes"]
    if not passes:
        passes = [name for name in onnxoptimizer.get_fuse_and_elimination_passes() if name != DUPLICATES]
    ops = {node.op_type for node in all_nodes(model)}
    if ops & {*RANDOM_OPS, "Dropout"}:
        passes = [name for name in passes if name != COMMON_NODES]
    save(until_settled(lambda one: onnxoptimizer.optimize(one, passes, fixed_point=True), model), target)
    return ""


def ort_optimize(source: Path, target: Path, options: dict[str, Any]) -> str:
    """onnxruntime's own graph optimizations, and those of the result, until it gets no smaller.

    Constants that one run computes only the next one shares.
    """
    level, ties = LEVELS[options["level"]]
    _open(source, level, target)
    again = target.with_name("again.onnx")
    for _ in range(MOST_RUNS - 1):
        _open(target, level, again)
        if again.stat().st_size >= target.stat().st_size:
            break
        again.replace(target)
    again.unlink(missing_ok=True)
    return ties.format(ort.__version__)


def _open(source: Path, level: str, target: Path | None = None, *, without: Sequence[str] = ()) -> None:
    """Load a model into onnxruntime, and write what that makes of it `without` some of its optimizers."""
    session = ort.SessionOptions()
    session.log_severity_level = 4
    session.intra_op_num_threads = 1
    session.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    if target is not None:
        session.optimized_model_filepath = str(target)
    providers = ["CPUExecutionProvider"]
    ort.InferenceSession(str(source), session, providers=providers, disabled_optimizers=list(without))


def fuse_transformer(source: Path, target: Path, options: dict[str, Any]) -> str:
    """onnxruntime's transformer optimizer, after the runtime's own basic optimizations.

    Return what was fused, in words; nothing if nothing was.
    """
    before = load(source)
    made = before
    for given in _forms(source, Path(options["folder"]) / "basic.onnx"):
        made = _fused(given, options)
        if made.ByteSize() < before.ByteSize():
            break
    save(made, target)
    names = _fusions(made) - _fusions(before)
    if not names:
        return ""
    listed = ", ".join(f"{count} {name}" for name, count in sorted(names.items()))
    return f"{listed}; runs in onnxruntime {ort.__version__} and what is compatible with it"


def _forms(source: Path, basic: Path) -> list[Path]:
    """The model as the fusions know it, and as it is: what is folded in the first can make it larger."""
    if list(source.parent.glob(f"{source.name}.*")):  # past protobuf's limit, with data beside it
        return [source]
    _open(source, "ORT_ENABLE_BASIC", basic, without=UNWANTED_OPTIMIZERS)
    return [basic, source]


def _fused(path: Path, options: dict[str, Any]) -> onnx.ModelProto:
    import sympy  # noqa: F401  # the optimizer lacks it only halfway through, and then without its name
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    wanted = FusionOptions(options["model_type"])
    # The default for some types counts the ones of a mask, or drops it: wrong unless padding is at the end.
    wanted.use_raw_attention_mask(True)
    made = optimize_model(
        str(path),
        model_type=options["model_type"],
        num_heads=options["num_heads"],
        hidden_size=options["hidden_size"],
        optimization_options=wanted,
        opt_level=0,
        use_gpu=False,
    )
    fused: onnx.ModelProto = made.model
    domains = {node.domain for node in fused.graph.node}
    if MICROSOFT in domains - {entry.domain for entry in fused.opset_import}:
        fused.opset_import.add(domain=MICROSOFT, version=1)  # the tool forgets it for some fusions
    return fused


def _fusions(model: onnx.ModelProto) -> Counter[str]:
    own = (node for node in model.graph.node if node.domain == MICROSOFT or node.op_type in FUSED)
    return Counter(node.op_type for node in own)


def refuse_broken(source: Path, target: Path) -> None:
    """A RuntimeError where the result does not load although the model did."""
    problem = _problem(target)
    if problem and not _problem(source):
        raise RuntimeError(f"what it made of the model does not load: {problem}")


def _problem(path: Path) -> str:
    try:
        _open(path, "ORT_DISABLE_ALL")
    except runtime_errors(RuntimeError) as error:
        return str(error) or type(error).__name__
    return ""
