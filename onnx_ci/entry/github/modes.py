"""Modes `check`, `fix` and `commit`: the gate is run, and everybody is told what came of it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from onnx_ci.entry.github.commit_mode import run_commit
from onnx_ci.entry.github.event import Event
from onnx_ci.entry.github.git_settings import credentials, git_settings, lfs_filter, ownership
from onnx_ci.entry.github.inputs import Inputs
from onnx_ci.entry.github.judged import judged
from onnx_ci.entry.github.looked_at import refuse_other_checkout
from onnx_ci.entry.github.tell import Told, report_folder, tell
from onnx_ci.targets.git import find_root


def run_mode(inputs: Inputs, event: Event) -> None:
    _give_cache_a_key(event)
    inputs = _in_its_repository(inputs)
    here, folder = Path.cwd(), report_folder()
    root = find_root(here) or here
    with git_settings(ownership(root)), git_settings(lfs_filter(root)):
        if find_root(here) is not None:
            with git_settings(credentials(inputs.token)):
                refuse_other_checkout(event, root)
        if inputs.mode == "commit":
            told = run_commit(inputs, event, here, folder)
        else:
            report = judged(inputs.mode, inputs, event)
            told = Told(report=report, changed=any(outcome.written for outcome in report.outcomes))
    tell(told, inputs, event, folder)


def _in_its_repository(inputs: Inputs) -> Inputs:
    """With `path` of the checkout the repository is in a folder below: that of the policy or the paths."""
    here = Path.cwd().resolve()
    named = [(here / name).resolve() for name in (inputs.policy, *inputs.paths) if name]
    roots = {find_root(path if path.is_dir() else path.parent) for path in named}
    root = roots.pop() if len(roots) == 1 else None
    if find_root(here) is not None or root is None or not root.is_relative_to(here):
        return inputs
    os.chdir(root)
    policy = str(here / inputs.policy) if inputs.policy else ""
    return replace(inputs, policy=policy, paths=tuple(str(here / name) for name in inputs.paths))


def _give_cache_a_key(event: Event) -> None:
    """Entries are believed if they are signed. Without a secret the repository's name signs them, and only
    where GitHub itself keeps strangers from writing to the cache that is restored."""
    if event.trusts_cache and event.repository and os.environ.get("GITHUB_ACTIONS") == "true":
        os.environ.setdefault("ONNX_CI_CACHE_KEY", f"github-actions:{event.repository}")
