"""Where a command runs: the folder, the repository around it, and the policy that holds there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.methods.catalogue import Catalogue
from onnx_ci.policy.load import find_policy, load_policy
from onnx_ci.policy.schema import Policy, Rule
from onnx_ci.targets.git import find_root

BUILT_IN = Policy(file="built-in rules", rules=(Rule(pattern="**/*.onnx"),))
NO_POLICY = (
    "no .onnx-ci.yaml found: models are checked by built-in rules (dedupe, drop-unused);"
    " `onnx-ci init` writes one"
)


@dataclass(frozen=True, kw_only=True)
class Context:
    """`root` bounds what is read and written; `folder` is what the policy's patterns are relative to."""

    here: Path
    repository: Path | None
    root: Path
    folder: Path
    policy: Policy
    policy_path: Path | None

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.policy_path else (NO_POLICY,)


def open_context(policy_option: str | None) -> Context:
    """Find and read the policy: the one that is named, or the nearest upward within the repository."""
    here = Path.cwd()
    repository = find_root(here)
    path = (
        _named(here / policy_option, policy_option)
        if policy_option
        else find_policy(here, repository or here)
    )
    folder = path.parent if path else repository or here
    return Context(
        here=here,
        repository=repository,
        root=repository or folder,
        folder=folder,
        policy=load_policy(path, methods=Catalogue(), name=_shown(path, here)) if path else BUILT_IN,
        policy_path=path,
    )


def _named(path: Path, option: str) -> Path:
    if not path.is_file():
        raise UsageError(f"there is no policy file {option!r}", hint="`onnx-ci init` writes .onnx-ci.yaml")
    return path.resolve()


def _shown(path: Path, here: Path) -> str:
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
