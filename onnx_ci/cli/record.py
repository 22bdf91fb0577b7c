"""`onnx-ci record`: run a program, and keep what it feeds to its models as samples."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from onnx_ci.cli.output import flag, value, whole_number
from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.gate.record import COUNT, LIMIT, Recorded, RecordedModel, Recording, record_command
from onnx_ci.report.text import counted
from onnx_ci.util.sizes import format_size, parse_size
from onnx_ci.util.text import first_of, option_free, shell_word

_LARGE = 5_000_000  # bytes that are rather for Git LFS
_SHOWN = 5  # models that are none of the repository's
_USAGE = "for example: onnx-ci record -- pytest tests/"
ARGUMENTS = {
    "record": (
        value("program COMMAND", "what to run, after `--`: -- pytest tests/", nargs="*"),
        value("--output DIR", "where samples go (default: .onnx-ci/samples, where rules find them)"),
        value(
            "--count N",
            "samples of a model, at most (default: %(default)s)",
            type=whole_number(1, 1000),
            default=COUNT,
        ),
        value("--limit SIZE", f"bytes of a model's samples, at most (default: {format_size(LIMIT)})"),
        flag("--add", "add to what was recorded before, instead of replacing it"),
    ),
}
EXAMPLES = {
    "record": """\
onnx-ci record -- pytest tests/
onnx-ci record --count 16 --add -- python predict.py photo.jpg"""
}


def run_record(options: argparse.Namespace) -> int:
    if not options.program:
        raise UsageError("there is no command to record", hint=_USAGE)
    how = Recorded(
        output=options.output or "", count=options.count, limit=_limit(options.limit), add=options.add
    )
    recording = record_command(options.program, how)
    # The output of the program is its own: what is said about it goes where messages go.
    for line in _summary(recording, how):
        sys.stderr.write(f"onnx-ci: {line}\n")
    if recording.exit_code:
        return recording.exit_code
    if not recording.kept:
        raise _nothing(recording)
    return 0


def _limit(text: str | None) -> int:
    try:
        return LIMIT if text is None else max(1, parse_size(text))
    except ValueError as error:
        raise UsageError(f"--limit: {error}", hint="for example: --limit 25MB") from None


def _summary(recording: Recording, how: Recorded) -> Iterator[str]:
    known = [model for model in recording.models if model.state != "unknown"]
    for model in known:
        yield from _about(model, how)
    unknown = [model for model in recording.models if model.state == "unknown"]
    for model in unknown[:_SHOWN]:
        yield f"{_word(model.model)}: {_runs(model)}, and no model of this repository, so nothing was kept"
    if len(unknown) > _SHOWN:
        yield f"and {counted(len(unknown) - _SHOWN, 'other model')} that are none of this repository"
    for trouble in recording.troubles:
        yield f"warning: recording went wrong in one place, the program was not affected: {trouble}"
    if recording.exit_code:
        until = "what was seen until then counts" if recording.models else _unseen(recording)
        yield f"the command ended with exit code {recording.exit_code}; {until}"
    if recording.kept:
        yield from _advice(recording.kept, how)


def _about(model: RecordedModel, how: Recorded) -> Iterator[str]:
    kept = (
        f"{counted(len(model.samples), 'sample')} kept, {format_size(model.size)}, in {_word(model.folder)}"
    )
    words = {"kept": kept, "ignored": "its rule ignores it, so nothing was kept", "none": "nothing was kept"}
    yield f"{_word(model.model)}: {_runs(model)}, {words.get(model.state, '')}"
    if model.too_large:
        yield (
            f"  larger inputs were left out, up to {format_size(model.too_large)};"
            f" --limit allows more than {format_size(how.limit)}"
        )
    if model.unfit:
        yield f"  some do not fit the model in the repository: {model.unfit}"
    if model.overridden:
        names = ", ".join(f'"{name}"' for name in model.overridden)
        yield (
            f"  {names} was fed though the model has a value for it, which samples can't hold;"
            f" keep it an input: {{freeze-inputs: {{skip: [{names}]}}}}"
        )
    if model.state == "kept" and how.output and not model.pattern:
        yield "  no rule can name them: they are outside of the repository"
    elif model.state == "kept" and how.output:
        yield f'  to use them, in its rule: inputs: {{samples: ["{model.pattern}"]}}'
    elif model.state == "kept" and not model.ruled:
        yield "  no rule matches it, so these are not used yet"
    elif model.state == "kept" and model.named:
        yield "  its rule names samples of its own, so these are not used unless it names them too"


def _advice(kept: list[RecordedModel], how: Recorded) -> Iterator[str]:
    size = sum(model.size for model in kept)
    where = how.output or ".onnx-ci/samples"
    used = [model.model for model in kept if model.ruled and not model.named and not how.output]
    if used:
        yield f"rules use them from now on: onnx-ci explain {_word(used[0])}"
    yield "look at them before you commit them: what a program is fed may be private"
    if size > _LARGE:
        yield f"{format_size(size)} stay in git's history for ever: git lfs track {_word(where + '/**')}"
    else:
        yield f"{format_size(size)} are fine for git as it is; what grows is better in Git LFS"


def _nothing(recording: Recording) -> EnvironmentFault:
    """The command went well, and yet there is no sample."""
    if recording.models:
        hint = "run it in the repository that holds the models, with their content there"
        if largest := max(model.too_large for model in recording.models):
            hint = f"allow inputs of that size: --limit {largest}"
        return EnvironmentFault("nothing was recorded: see above for each model that was run", hint=hint)
    if recording.failed:
        return EnvironmentFault(
            _unseen(recording), hint="what fails is no sample: mend the inputs, or run it where it works"
        )
    if not recording.watched:
        return EnvironmentFault(
            "no onnxruntime session was seen: the command started no Python that could be watched",
            hint="PYTHONPATH has to reach the program: not with `python -I`, `-E` or `-S`, nor through a tool"
            " that clears the environment (tox: pass_env = PYTHONPATH); or, in it: with onnx_ci.record():",
        )
    return EnvironmentFault(
        "no onnxruntime session was seen: Python ran, and no InferenceSession ran a model in it",
        hint="check that the tests that run models were not skipped; other runtimes than onnxruntime's"
        " Python package, or a Python with `-I` further down, are not seen",
    )


def _unseen(recording: Recording) -> str:
    if not recording.failed:
        return "no onnxruntime session was seen"
    return f"every run that was seen failed: {first_of([*map(_word, recording.failed)], _SHOWN)}"


def _runs(model: RecordedModel) -> str:
    return f"{counted(model.runs, 'run')} seen"


def _word(text: str) -> str:
    return shell_word(option_free(text))
