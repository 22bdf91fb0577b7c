"""Commands about the policy: `onnx-ci init`, `ratchet`, `methods` and `schema`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path

from onnx_ci.cli.inspect import survey, survey_table, weight_together
from onnx_ci.cli.output import flag, value
from onnx_ci.errors import EnvironmentFault, ModelError, UsageError
from onnx_ci.gate.judge import how_to_get
from onnx_ci.gate.project import Context, open_context, policy_for
from onnx_ci.methods.catalogue import METHODS, Catalogue
from onnx_ci.model.load import open_model
from onnx_ci.model.model import display_path
from onnx_ci.policy.edit import Holder, Lowered, lower, starter_policy, with_rules
from onnx_ci.policy.load import FILE_NAMES, group_members, rule_for, rule_naming
from onnx_ci.policy.schema import Policy
from onnx_ci.repo.content import Source, Sources
from onnx_ci.repo.git import ask_in_parts, find_root
from onnx_ci.repo.select import all_models
from onnx_ci.report.json import dumps
from onnx_ci.util.advice import to_run
from onnx_ci.util.files import atomic_write
from onnx_ci.util.sizes import format_size, parse_fraction
from onnx_ci.util.text import Style, counted, one_line

HEADROOM = 0.05  # of budgets that `init` writes: a model that is trained again is never as large to the byte
SURVEY_SECONDS = 20.0  # after which `init` begins no other model


def _share(text: str) -> float:
    try:
        share = parse_fraction(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if share > 1 and not text.endswith("%"):
        raise argparse.ArgumentTypeError(f"{text!r} is {share:.0%}: write {text}% if that is meant")
    return share


ARGUMENTS = {
    "init": (
        flag("--ratchet", "a rule a model, at its size to the byte; then: onnx-ci ratchet"),
        value("--headroom P", "room that budgets leave above present sizes (default: 5%%)", type=_share),
        flag("--no-survey", "don't look at what could be saved"),
        flag("--force", "replace a policy file that is already there"),
    ),
    "ratchet": ("--policy",),
    "methods": (("--format", {"choices": ("text", "json"), "default": "text"}),),
    "schema": (flag("--report", "the schema of what `check --format json` writes, instead"),),
}
EXAMPLES = {
    "init": "onnx-ci init && onnx-ci check --all",
    "ratchet": "onnx-ci ratchet && git diff .onnx-ci.yaml",
    "methods": "onnx-ci methods --format json",
}


def run_init(options: argparse.Namespace) -> int:
    repository = find_root(Path.cwd())
    folder = repository or Path.cwd()
    existing = [folder / name for name in FILE_NAMES if (folder / name).exists()]
    if existing and not options.force:
        instead = "onnx-ci ratchet" if options.ratchet else "onnx-ci init --force"
        raise UsageError(f"{existing[0].name} is already there", hint=f"edit it, or run: {instead}")
    if options.ratchet and options.headroom is not None:
        raise UsageError("--ratchet and --headroom can't be given together", hint="leave one of them out")
    target = existing[0] if existing else folder / FILE_NAMES[0]
    models: dict[Path, int] = {}
    unreadable: list[str] = []
    with Sources(folder) as sources:
        for path in all_models(folder, repository):
            source = sources.of(path)
            try:
                models[path] = _readable_size(source)
            except ModelError as error:
                unreadable.append(f"{error.message}; {error.hint}")
    named = [(path.relative_to(folder).as_posix(), size) for path, size in models.items()]
    headroom = HEADROOM if options.headroom is None else options.headroom
    try:
        text = starter_policy(named, exact=options.ratchet, headroom=headroom)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{target.name} could not be written: {error.strerror}"
        raise EnvironmentFault(message, hint=f"check who may write in {target.parent}") from None
    sys.stdout.write(f"wrote {target.name} for {counted(len(models), 'model')}\n")
    for reason in unreadable:
        sys.stdout.write(f"no rule for {one_line(reason)}\n")
    if repository is not None:
        _tell_git_to_diff(repository, list(models))
    if models and not options.no_survey:
        _survey(sorted(models, key=lambda path: models[path]))
    sys.stdout.write("next: read it, then run: onnx-ci check --all\n")
    return 0


def _tell_git_to_diff(repository: Path, models: Sequence[Path]) -> None:
    """Name the driver that shows models in `git diff`, unless another one is named already. Where Git LFS has
    models its attributes stay; `binary` would take its merge driver away."""
    names = [path.relative_to(repository).as_posix() for path in models] or ["model.onnx"]
    words = ask_in_parts(repository, "check-attr", "-z", "diff", "filter", names=names)
    values = set(zip(words[1::3], words[2::3], strict=True))
    target = repository / ".gitattributes"
    drivers = {value for attribute, value in values if attribute == "diff"}
    if drivers <= {"unspecified", "unset", "lfs", "onnx"} and not target.is_symlink():
        line = "*.onnx diff=onnx\n" if ("filter", "lfs") in values else "*.onnx binary diff=onnx\n"
        text = target.read_bytes() if target.is_file() else b""
        if drivers != {"onnx"} and line.encode() not in text.splitlines(keepends=True):
            with atomic_write(target) as temporary:
                temporary.write_bytes(text + b"\n" * (text[-1:] not in (b"", b"\n")) + line.encode())
            sys.stdout.write(f"added to .gitattributes: {line}")
        command = 'git config diff.onnx.textconv "onnx-ci diff --textconv"'
        sys.stdout.write(f"to see models in git diff, each clone once: {command}\n")


def _readable_size(source: Source) -> int:
    """What a model takes; what can't be read says why, and gets no rule."""
    for part in source.absent:
        keeper = part.pointer.keeper if part.pointer else "Git LFS"
        hint = how_to_get(part.path, keeper, fetching=False)
        raise ModelError(
            f"{display_path(part.path)}: its content has not been downloaded from {keeper}", hint=hint
        )
    with open_model(source.path, root=source.root):
        return source.size


def _survey(models: Sequence[Path]) -> None:
    """Briefly what could be saved, the smallest models first."""
    sys.stdout.flush()
    found = survey(open_context(None), models, seconds=SURVEY_SECONDS)
    style = Style.of(sys.stdout)
    sys.stdout.write("\n" + "".join(f"{line}\n" for line in survey_table(found, style)))
    left = found.count(None)
    more = f"{counted(left, 'model')} not looked at yet; " if left else ""
    sys.stdout.write(f"{more}`onnx-ci survey` says what each takes in the policy\n\n")


def run_ratchet(options: argparse.Namespace) -> int:
    context = open_context(options.policy)
    path = context.policy_path
    if path is None:
        raise UsageError("there is no policy to lower budgets in", hint=to_run("onnx-ci init --ratchet"))
    data = path.read_bytes()
    with Sources(context.root) as sources:
        present = Present(context, sources)
        text, lowered = lower(data.decode("utf-8-sig"), present.value, Catalogue())
        uncovered = present.uncovered()
    added = with_rules(text, uncovered, Catalogue()) if uncovered else None
    if lowered or added:
        mark = data[:3] if data.startswith(b"\xef\xbb\xbf") else b""
        with atomic_write(path) as temporary:  # a policy that is half written would stop everybody
            temporary.write_bytes(mark + (added or text).encode())
            temporary.chmod(path.stat().st_mode)
    name = one_line(context.checked.file)
    for change in lowered:
        sys.stdout.write(f"{name}:{change.line}: {_said(change)}\n")
    if not lowered:
        sys.stdout.write(f"{name}: no budget is above what the models weigh now\n")
    done, by_hand = ("added", "") if added else ("could not add", ": add it by hand")
    for model, size in uncovered:
        sys.stdout.write(f"{name}: {done} a rule for {one_line(model)}, at {format_size(size)}{by_hand}\n")
    return 0


def _said(change: Lowered) -> str:
    if change.key == "params":
        return f"params {change.before:,} -> {change.after:,}"
    sizes = f"{format_size(change.before)} -> {format_size(change.after)}"
    return f"{change.key} {sizes} ({change.after:,} bytes)"


class Present:
    """What the models weigh now, by the rule or group that a budget holds for."""

    def __init__(self, context: Context, sources: Sources) -> None:
        self.sources = sources
        self.policy: Policy = context.policy
        self.models = {
            context.name_of(path): path
            for path in all_models(context.folder, context.repository)
            if policy_for(context, path.parent) == context.policy_path
        }
        self.measured = cache(self._measured)

    def uncovered(self) -> list[tuple[str, int]]:
        """Models that no rule matches, with what they weigh: nothing would stop them from growing."""
        names = [name for name in self.models if rule_for(self.policy, name) is None]
        sizes = {name: self.measured("size", self.models[name]) for name in names}
        return [(name, size) for name, size in sizes.items() if size]

    def value(self, holder: Holder, key: str) -> int | None:
        section, number = holder
        if section == "groups":
            members = group_members(self.policy.groups[number], self.models)
            paths = [self.models[name] for name in members]
            return None if key == "params" else weight_together(self.sources, paths, key)
        rule = self.policy.rules[number]
        largest = 0
        for name, path in self.models.items():
            whole = rule_for(self.policy, name)
            if rule_naming(self.policy, name, "budget") is rule and not (whole and whole.ignore):
                weight = self.measured(key, path)
                if weight is None:
                    return None
                largest = max(largest, weight)
        return largest

    def _measured(self, key: str, path: Path) -> int | None:
        try:
            return weight_together(self.sources, [path], key)
        except ModelError:
            return None


def run_methods(options: argparse.Namespace) -> int:
    width = max(len(method.name) for method in METHODS)
    listed, lines = [], []
    for method in METHODS:
        items = [item for item in fields(method.option_class) if item.default is not MISSING]
        defaults = {item.name: item.default for item in items}
        about = {"name": method.name, "fidelity": method.fidelity, "summary": method.summary}
        listed.append({**about, "options": defaults})
        lines.append(f"{method.name:<{width}}  {method.fidelity:<14}  {method.summary}\n")
        lines += [f"{'':<{width}}                  {name}: {default}\n" for name, default in defaults.items()]
    if options.format == "json":
        lines = [dumps({"methods": listed})]
    sys.stdout.write("".join(lines))
    return 0


def run_schema(options: argparse.Namespace) -> int:
    from onnx_ci.methods.catalogue import option_schemas
    from onnx_ci.policy.fields import json_schema
    from onnx_ci.report.json import report_schema

    sys.stdout.write(dumps(report_schema() if options.report else json_schema(option_schemas())))
    return 0
