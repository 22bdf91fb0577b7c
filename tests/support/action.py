"""Calls the action's program in this process, as its step would: inputs and event through the environment."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from onnx_ci.action import install
from onnx_ci.action.run import main
from tests.support.cli import plain_environment
from tests.support.workflows import PROJECT, REPOSITORY

OUTPUT = re.compile(r"^(\S+)<<(\S+)\n(.*?)\n\2$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Called:
    """What a call said and handed over."""

    log: str
    outputs: Mapping[str, str]
    summary: str

    @property
    def code(self) -> str:
        return self.outputs["exit-code"]

    @property
    def report(self) -> Any:
        return json.loads(Path(self.outputs["report"]).read_text())

    @property
    def patch(self) -> Path:
        return Path(self.outputs["report"]).with_name("changes.patch")


def call(
    folder: Path,
    event: str = "push",
    payload: Mapping[str, Any] | None = None,
    *,
    also: Mapping[str, str] | None = None,
    step: str = "run",
    bug: bool = False,
    **inputs: str,
) -> Called:
    """Inputs by their names, with `_` for `-`; `also` is more of the environment; `bug`: one is met."""
    environment = step_environment(folder, event, payload, also=also, **inputs)
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    before = Path.cwd()
    patched = mock.patch.dict(os.environ, environment, clear=True)
    # A step finds its files where the action is; here the package may be installed somewhere else.
    at_home = mock.patch.object(install, "HOME", PROJECT)
    with patched, at_home, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        os.chdir(folder)
        try:
            code = main([step])
        finally:
            os.chdir(before)
    log = _text(out) + _text(err)
    assert (code == 0) == (step == "run" or "::error" not in log), log
    done = told(environment, log)
    assert (done.outputs.get("exit-code") == "4") == bug, log
    return done


def told(environment: Mapping[str, str], log: str) -> Called:
    """What a step left in the files that it was given."""
    outputs = {
        name: value for name, _, value in OUTPUT.findall(Path(environment["GITHUB_OUTPUT"]).read_text())
    }
    return Called(log=log, outputs=outputs, summary=Path(environment["GITHUB_STEP_SUMMARY"]).read_text())


def step_environment(
    folder: Path,
    event: str = "push",
    payload: Mapping[str, Any] | None = None,
    *,
    also: Mapping[str, str] | None = None,
    **inputs: str,
) -> dict[str, str]:
    """What a runner gives to a step of the action."""
    place = folder.parent / f"runner-of-{folder.name}"
    place.mkdir(exist_ok=True)
    (place / "event.json").write_text(json.dumps(payload or {}))
    files = {name: place / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    for file in files.values():
        file.write_text("")
    return {
        **plain_environment(),
        **{name: str(file) for name, file in files.items()},
        **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(place / "event.json"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_REF": "refs/heads/main",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "RUNNER_TEMP": str(place),
        "RUNNER_TOOL_CACHE": str(place / "tools"),
        **(also or {}),
    }


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
