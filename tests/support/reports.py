"""Reports made by hand, with something in every field, for the tests of what is drawn from them."""

from __future__ import annotations

from dataclasses import replace

from onnx_ci.results import (
    Alternative,
    Base,
    ChangeCounts,
    Difference,
    Finding,
    GoneModel,
    KeptTensor,
    Latency,
    LayerChange,
    Limit,
    Measure,
    ModelDiff,
    ModelInfo,
    Moved,
    OpCount,
    Optimized,
    Outcome,
    OutputDelta,
    Planned,
    Point,
    Port,
    Provenance,
    RunReport,
    RuntimeRun,
    Step,
    TensorBytes,
    TensorChange,
    TensorInfo,
    ValueShift,
    ValueSpread,
    Verification,
    Work,
)
from onnx_ci.util.advice import to_run


def points() -> tuple[Point, ...]:
    return (
        Point(size=4_550_000, cosine=0.984679, sqnr=15.1, holds=False),
        Point(size=6_870_000, cosine=0.999531, sqnr=30.3, holds=True, chosen=True),
        Point(size=7_990_000, cosine=0.999572, sqnr=30.9, holds=True),
        Point(size=15_500_000, cosine=1.0, sqnr=64.2, holds=True),
        Point(size=30_900_000, cosine=1.0, sqnr=300.0, holds=True),
    )


def planned(name: str) -> Planned:
    return Planned(
        tensors=45,
        forms=(("int8 by channel", 3), ("int4", 40)),
        kept=tuple(
            KeptTensor(
                name=f"{name}{number}",
                form="as it was",
                size=1_990_000,
                why="it leaves 18.0 dB",
            )
            for number in range(14)
        ),
        trials=51,
        seconds=21.4,
        untried="33 of 45 tensors were measured when time was up",
        curve=points(),
        larger=16,
    )


def outcome(path: str = "models/encoder.onnx", name: str = "layer.weight") -> Outcome:
    """A model for which a plan was made; `name` is what the model calls its tensors and outputs."""
    return Outcome(
        path=path,
        verdict="would_shrink",
        rule_pattern="models/**/*.onnx",
        rule_line=6,
        before=Measure(size=30_900_000, sha256="0" * 64, params=7_681_294, gzip=28_000_000),
        after=Measure(size=6_870_000, params=7_681_294, gzip=6_500_000),
        steps=(
            Step(method="dedupe", size_before=30_900_000, size_after=30_900_000, tensors=0, seconds=0.04),
            Step(
                method="int4-weights",
                size_before=30_900_000,
                size_after=6_870_000,
                tensors=43,
                seconds=0.59,
                note=f"left alone: {name}",
            ),
        ),
        verification=Verification(
            status="passed",
            samples=2,
            outputs=(delta(name), delta(f"{name} echo", sensitive=False)),
            runtimes=(
                RuntimeRun(version="1.31.1", optimizations="default", status="passed", samples=2),
                RuntimeRun(version="1.20.1", optimizations="disabled", status="not_run", reason=f"no {name}"),
            ),
            optimized=Optimized(
                nodes_before=40, nodes_after=44, lost=(OpCount(op="com.microsoft.Gelu", before=1, after=0),)
            ),
        ),
        findings=(
            Finding(
                code="OCI003", severity="error", message=f"{path}: can be 6.87 MB", hint=to_run(f"fix {path}")
            ),
            Finding(code="OCI004", severity="note", message=f"left out: output {name!r}"),
        ),
        alternatives=(
            Alternative(
                methods=("fp16-weights",),
                size=15_500_000,
                verdict="within tolerance",
                state="within",
                cosine=1.0,
                sqnr=64.2,
            ),
            Alternative(
                methods=("int4-weights",),
                size=4_550_000,
                verdict=f"refused: output {name!r}: cosine 0.9847 is below 0.999",
                state="refused",
                cosine=0.984679,
                sqnr=15.1,
            ),
        ),
        plan=planned(name),
        latency=Latency(
            before=0.01234,
            after=0.0121,
            ratio=0.98,
            low=0.95,
            high=1.02,
            load_before=0.1,
            load_after=0.12,
            memory_before=90_000_000,
            memory_after=70_000_000,
        ),
        limits=(Limit(name="size", limit=25_000_000), Limit(name="params", limit=10_000_000)),
        tensors=tensors(name, 3),
        inputs=(Port(name=name, type="float[batch,3]"),),
        outputs=(Port(name=name, type=f"float[{name}]"),),
        seconds=31.5,
        work=Work(loads=3, runs=40, loading=1.5, running=20.0, comparing=2.5, planning=6.0),
    )


def tensors(name: str, count: int) -> tuple[TensorBytes, ...]:
    """Some that were rounded, some that are gone, one that is new."""
    encoded = tuple(
        TensorBytes(
            name=f"{name}{number}",
            dtype="float",
            shape=(300, 250),
            before=300_000,
            after=0 if number % 3 == 2 else 75_300,
            stored="" if number % 3 == 2 else "uint8",
            done="stored as uint8 and float",
        )
        for number in range(count)
    )
    return (*encoded, TensorBytes(name=name, dtype="int64", shape=(), before=0, after=8, done="new"))


def delta(name: str, *, sensitive: bool = True) -> OutputDelta:
    return OutputDelta(
        name=name,
        max_abs=0.299,
        max_rel=0.5,
        mean_abs=0.01,
        cosine=0.999531,
        sqnr=30.3,
        top1=1.0,
        exact=False,
        sensitive=sensitive,
        histogram=(10, 0, 200, 3_000, 40_000, 20_000, 3, 0),
    )


def run_report(path: str = "models/encoder.onnx", name: str = "layer.weight") -> RunReport:
    broken = Finding(code="OCI006", severity="error", message="models/broken.onnx: is not an ONNX model")
    group = Finding(code="OCI008", severity="warning", message="app bundle is over its size budget of 60 MB")
    return RunReport(
        command="check",
        outcomes=(
            outcome(path, name),
            Outcome(path="models/broken.onnx", verdict="unreadable", findings=(broken,)),
            Outcome(path="vendor/old.onnx", verdict="ignored"),
            Outcome(path="models/fine.onnx", verdict="ok", before=Measure(size=1_000)),
        ),
        findings=(group,),
        policy=".onnx-ci.yaml",
        seconds=98.5,
        notes=("the policy changed, so every model is looked at",),
    )


def difference(path: str, name: str, tensors: int = 2) -> ModelDiff:
    """What changed in a model: every kind of thing."""
    moved = ValueShift(share=0.5, relative=0.01, max_abs=0.25, not_finite=0, exact=True)
    return ModelDiff(
        before=f"0123456789:{path}",
        after=path,
        size_before=5_000_000,
        size_after=5_000_000,
        params_before=7,
        params_after=8,
        opsets=(Difference(name="ai.onnx", before=17, after=18),),
        metadata=(Difference(name=name, before=name, after=None),),
        nodes=(Difference(name=name, before=f"Add({name})", after=f"Mul({name})"),),
        node_counts=ChangeCounts(changed=1, added=3),
        tensor_counts=ChangeCounts(changed=tensors),
        tensors=(
            TensorChange(
                name=name,
                state="changed",
                layer=name,
                before="float[2]",
                after="float[2]",
                size_before=8,
                size_after=8,
                moved=moved,
                values=ValueSpread(low=-1.0, high=1.0, before=(0, 2), after=(1, 1)),
            ),
        )
        * tensors,
        layers=(LayerChange(prefix=name, tensors=2, size_before=8, size_after=8, relative=0.01),),
        notes=(f"{name}: 50 of 70 are listed",),
    )


def pull_request(path: str = "models/encoder.onnx", name: str = "layer.weight") -> RunReport:
    """The same with what the change did: a model that grew, others that are new, retrained, renamed, gone."""
    run = run_report(path, name)
    first = replace(
        run.outcomes[0],
        limits=(*run.outcomes[0].limits, Limit(name="gzip", limit=30_000_000)),
        base=Base(
            state="changed",
            measure=Measure(size=20_000_000, gzip=18_000_000),
            undiffed=f"only a pointer of {name} is here",
        ),
    )
    same = Base(state="unchanged", measure=Measure(size=1_000), path=f"old {path}")
    retrained = Outcome(
        path=f"retrained {path}",
        verdict="ok",
        before=Measure(size=5_000_000),
        base=Base(state="changed", measure=Measure(size=5_000_000), diff=difference(path, name)),
        moved=Moved(comparable=True, output=name, cosine=0.99871, max_abs=0.5, samples=4),
    )
    new = Outcome(path=f"new {path}", verdict="ok", before=Measure(size=400), base=Base(state="new"))
    return replace(
        run,
        outcomes=(first, *run.outcomes[1:3], replace(run.outcomes[3], base=same), retrained, new),
        base="0123456789abcdef" * 2,
        gone=(GoneModel(path=f"gone {path}", size=7_000_000),),
        provenance=Provenance(
            repository=f"https example {name}",
            commit="fedcba9876543210" * 2,
            date="2026-01-02T03:04:05+00:00",
            versions=("onnx-ci 1.2", "onnxruntime 1.31.1"),
        ),
    )


def model_info(path: str = "models/encoder.onnx", name: str = "layer.weight", tensors: int = 3) -> ModelInfo:
    return ModelInfo(
        path=path,
        measure=Measure(size=1_000_000, params=250_000, gzip=900_000),
        opset=17,
        ir_version=8,
        producer=name,
        nodes=12,
        ops={name: 7, "Add": 5},
        types={"float": 900_000, "int64": 1_000},
        tensor_bytes=901_000,
        other_bytes=99_000,
        duplicate_bytes=300_000,
        tensors=tuple(
            TensorInfo(name=f"{name}{n}", dtype="float", shape=(300, 250), size=300_000, share=0.3, copies=2)
            for n in range(tensors)
        ),
        shrunk_by=("dedupe",),
    )
