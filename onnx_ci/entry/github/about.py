"""What a comment says of the run that it reports on: GitHub's word, not the report's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnx_ci.entry.github.event import Event
from onnx_ci.report.inert import name, prose


def about(event: Event, environment: Mapping[str, str]) -> tuple[str, str]:
    """Lines for before and after the report."""
    if event.name != "workflow_run":
        return "", _line(event, environment.get("GITHUB_RUN_ID", ""), environment)
    after = _line(event, str(event.at("workflow_run", "id") or ""), environment)
    if not event.is_fork:
        return "", after
    where = name(event.text("workflow_run", "head_repository", "full_name"))
    ended = prose(event.text("workflow_run", "conclusion"))
    warning = f"made by a run of code from {where}, which could have written anything here. The run: {ended}."
    return f"> [!NOTE]\n> The report below was {warning}\n\n", after


def _line(event: Event, run: str, environment: Mapping[str, str]) -> str:
    """The commit and the run, of which only hexadecimal digits and a number are taken."""
    commit = event.head[:12] if re.fullmatch(r"[0-9a-f]{40,64}", event.head) else ""
    told = [f"commit <code>{commit}</code>"] if commit else []
    if re.fullmatch(r"[0-9]{1,20}", run) and event.repository:
        server = environment.get("GITHUB_SERVER_URL") or "https://github.com"
        told.append(f"[run {run}]({server}/{event.repository}/actions/runs/{run})")
    return f"\n<sub>{', '.join(told)}</sub>\n" if told else ""
