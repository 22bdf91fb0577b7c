"""What a rule requires of a model that its file tells by itself, without a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from onnx_ci.gate.subject import Task
from onnx_ci.model.graph import STANDARD_DOMAINS, default_inputs, foreign_nodes, metadata_entry, opset
from onnx_ci.model.interface import operator_name
from onnx_ci.model.proto import ModelProto
from onnx_ci.policy.fields import RUNTIMES
from onnx_ci.policy.schema import Require
from onnx_ci.results import Finding
from onnx_ci.util.text import first_of

_SHOWN = 3


@dataclass(frozen=True)
class Unmet:
    """One requirement that is not met, by its key in the policy."""

    key: str
    said: str
    hint: str


def about_requirements(task: Task, proto: ModelProto) -> tuple[Finding, ...]:
    """A finding for each requirement of its rule that a model does not meet."""
    rule, file = task.rule, task.policy.file if task.policy else ""
    findings = []
    for one in unmet(rule.require, proto):
        where = f" ({file}:{rule.line_of('require', one.key)})" if file else ""
        findings.append(task.finding("OCI061", rule.severity, one.said + where, one.hint))
    return tuple(findings)


def unmet(require: Require, proto: ModelProto) -> list[Unmet]:
    """The requirements that a model does not meet."""
    if require == Require():
        return []
    return [*_versions(require, proto), *_contents(require, proto), *_dynamic_batch(require, proto)]


def _versions(require: Require, proto: ModelProto) -> Iterator[Unmet]:
    version = opset(proto)
    if require.opset is not None and version not in require.opset:
        hint = "export it with another opset (opset_version=…), or convert it with onnx.version_converter"
        yield Unmet("opset", f"has opset {version}, its rule requires {require.opset.words}", hint)
    if require.ir is not None and proto.ir_version not in require.ir:
        said = f"has IR version {proto.ir_version}, its rule requires {require.ir.words}"
        yield Unmet("ir", said, "save it with another one: model.ir_version = …")
    older = "export it for an older one (opset_version=…, model.ir_version = …), or ship a newer runtime"
    found = (proto.ir_version, version, opset(proto, "ai.onnx.ml"))
    for name in require.runtimes:
        pairs = zip(("IR version", "opset", "opset of ai.onnx.ml"), found, RUNTIMES[name], strict=True)
        beyond = [f"{what} {has}, {name} takes up to {most}" for what, has, most in pairs if has > most]
        if beyond:  # the first tells enough of a runtime
            yield Unmet("runtimes", f"has {beyond[0]}", older)


def _contents(require: Require, proto: ModelProto) -> Iterator[Unmet]:
    nodes = foreign_nodes(proto)
    foreign = {node.domain for node in nodes} - {*(require.domains or ()), *STANDARD_DOMAINS}
    if require.domains is not None and foreign:
        allowed = ", ".join(["ai.onnx", *(name for name in require.domains if name not in STANDARD_DOMAINS)])
        said = f"uses operators of {first_of(sorted(foreign), _SHOWN)}, its rule allows those of {allowed}"
        yield Unmet("domains", said, "export it without them, or leave out the optimizer that put them in")
    used = sorted({operator_name(node) for node in nodes})
    deny, allow = require.operators.deny, require.operators.allow
    denied = [name for name in used if _any_of(deny, name)]
    unnamed = [name for name in used if allow is not None and not _any_of(allow, name)]
    hint = "export it without them, or change require: {operators: …}"
    if denied:
        yield Unmet("operators", f"has {first_of(denied, _SHOWN)}, which its rule denies", hint)
    if unnamed:
        yield Unmet("operators", f"has {first_of(unnamed, _SHOWN)}, which its rule does not allow", hint)
    missing = [key for key in require.metadata if not (metadata_entry(proto, key) or "").strip()]
    if missing:
        said = f"has no {first_of(missing, _SHOWN)} in its metadata, which its rule requires"
        yield Unmet("metadata", said, "add it: model.metadata_props.add(key=…, value=…)")


def _dynamic_batch(require: Require, proto: ModelProto) -> Iterator[Unmet]:
    """Of inputs with a shape the first size, or another that goes by the same name, such as in a state."""
    stored = default_inputs(proto.graph)
    shapes = {
        value.name: list(value.type.tensor_type.shape.dim)
        for value in proto.graph.input
        if value.name not in stored and value.type.tensor_type.shape.dim
    }
    open_first = {name for name, dims in shapes.items() if not dims[0].HasField("dim_value")}
    names = {shapes[name][0].dim_param for name in open_first} - {""}
    follows = {name for name, dims in shapes.items() if names & {dim.dim_param for dim in dims}}
    fixed = [name for name in shapes if name not in open_first | follows]
    if require.dynamic_batch and fixed:
        said = f"the batch of {first_of(fixed, _SHOWN)} is fixed, its rule requires it to be open"
        yield Unmet(
            "dynamic_batch", said, "export it with dynamic axes: dynamic_axes={'input': {0: 'batch'}}"
        )
    if require.dynamic_batch is False and open_first:
        said = (
            f"the batch of {first_of(sorted(open_first), _SHOWN)} is open, its rule requires it to be fixed"
        )
        yield Unmet("dynamic_batch", said, "export it with a fixed batch")


def _any_of(patterns: Sequence[str], name: str) -> bool:
    names = (name,) if "." in name else (name, f"ai.onnx.{name}")
    return any(fnmatchcase(one, pattern) for one in names for pattern in patterns)
