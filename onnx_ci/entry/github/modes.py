"""Modes `check`, `fix` and `commit`: the gate is run, and everybody is told what came of it."""

from __future__ import annotations

import os
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


def _give_cache_a_key(event: Event) -> None:
    """Entries are believed if they are signed. Without a secret the repository's name signs them, and only
    where GitHub itself keeps strangers from writing to the cache that is restored."""
    if event.trusts_cache and event.repository and os.environ.get("GITHUB_ACTIONS") == "true":
        os.environ.setdefault("ONNX_CI_CACHE_KEY", f"github-actions:{event.repository}")
