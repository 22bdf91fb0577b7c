"""The user's own score: their command is run on the original and on the candidate, and read."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import Evaluate, Limits
from onnx_ci.sandbox.forks import in_a_fork
from onnx_ci.sandbox.process import end, no_strays, note, users_environment
from onnx_ci.util.text import clean

_TAIL = 1 << 16  # bytes of output that are searched for the metric
_PLACE = "{model}"
_NUMBER = r"([-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?))%?(?![\w.])"


@dataclass(frozen=True, kw_only=True)
class Score:
    """`problem` is empty when the candidate's score is good enough."""

    before: float
    after: float
    problem: str = ""


def evaluate(spec: Evaluate, *, original: Path, candidate: Path, root: Path, limits: Limits) -> Score:
    before = measure_score(spec, original, root, limits)
    after = measure_score(spec, candidate, root, limits)
    return Score(before=before, after=after, problem=_problem(spec, before, after))


def arguments(command: str, model: Path) -> list[str]:
    """The command's words, split first: whatever is in the path, it stays one argument."""
    try:
        words = shlex.split(command, posix=os.name != "nt")
    except ValueError as error:
        raise _failure(command, f"can't be read ({error})") from None
    if not any(_PLACE in word for word in words):
        raise _failure(command, f"does not say where the model goes: {_PLACE}")
    return [word.replace(_PLACE, str(model)) for word in words]


def read_metric(text: str, metric: str) -> float | None:
    """The metric on the last line that has it: in a JSON object, or as `metric: 12.3`, `metric=12.3`. It may
    be NaN: an earlier line is not the score."""
    plain = re.compile(rf"(?<![\w.-]){re.escape(metric)}\s*[:=]\s*(?i:{_NUMBER})")
    for line in reversed(text.splitlines()):
        value = _from_json(line, metric)
        if value is None and (match := plain.search(line)):
            value = _number(match[1])
        if value is not None:
            return value
    return None


def _from_json(line: str, metric: str) -> float | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    value = document.get(metric) if isinstance(document, dict) else None
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: str | int | float) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def measure_score(spec: Evaluate, model: Path, root: Path, limits: Limits) -> float:
    """Run the command on one model and read its score."""
    command = arguments(spec.command, model.absolute())
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with no_strays() if in_a_fork() else nullcontext():
            code = _run(spec, command, root, limits.seconds, out, err)
        if code != 0:
            last = clean((_tail(err).strip().splitlines() or [""])[-1])
            raise _failure(spec.command, f"ended with exit code {code}" + (f": {last}" if last else ""))
        value = read_metric(_tail(out), spec.metric)
    if value is None:
        raise _failure(spec.command, f"printed no {spec.metric!r}")
    if not math.isfinite(value):
        raise _failure(spec.command, f"printed `{spec.metric}: {value}`, which is no score")
    return value


def _run(
    spec: Evaluate, command: list[str], root: Path, seconds: float, out: IO[bytes], err: IO[bytes]
) -> int:
    try:
        process = subprocess.Popen(
            command,
            cwd=root,
            env=users_environment(os.environ, spec.env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except OSError as error:
        raise _failure(spec.command, f"could not be started: {error.strerror}") from None
    note(process)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise _failure(spec.command, f"did not finish within {seconds:g} s") from None
    finally:
        end(process)


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    return file.read().decode("utf-8", "replace")


def _problem(spec: Evaluate, before: float, after: float) -> str:
    rise = after - before
    slack = 1e-9 * max(abs(before), abs(after), 1e-300)  # 0.3 - 0.1 must not exceed 0.2
    for change, limit, verb in ((rise, spec.max_increase, "rose"), (-rise, spec.max_decrease, "fell")):
        if limit is not None and change > limit + slack:
            return f"{spec.metric} {verb} from {before:g} to {after:g}, by {change:.4g}; {limit:g} is allowed"
    return ""


def _failure(command: str, what: str) -> ModelError:
    return ModelError(
        f"the evaluate command `{clean(command)}` {what}",
        hint="it has to take {model}, end with exit code 0, and print the metric as `name: 12.3` or as JSON",
        code="OCI016",
    )
