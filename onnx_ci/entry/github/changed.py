"""What a fix changed in the work tree: only that is ours to commit."""

from __future__ import annotations

from pathlib import Path

from onnx_ci.targets.changes import changed_since_head

State = dict[str, tuple[int, int, int] | None]


def work_tree(root: Path) -> State:
    """The files that differ from the last commit, and what they are at this moment."""
    return {name: _state(root / name) for name in changed_since_head(root) or ()}


def changed_files(before: State, after: State) -> list[str]:
    """What became different in between; what an earlier step left in the work tree stays there."""
    return sorted(name for name, state in after.items() if name not in before or before[name] != state)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino
