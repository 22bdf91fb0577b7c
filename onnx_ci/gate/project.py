"""Where a command runs: the folder, the repository around it, and the policy that holds there."""

from __future__ import annotations

from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.methods.catalogue import Catalogue
from onnx_ci.policy.load import CheckedPolicy, check_policy, find_policy
from onnx_ci.repo.git import find_root
from onnx_ci.repo.tree import Tree

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from onnx_ci.gate.policy_changes import BasePolicies
    from onnx_ci.policy.schema import Policy


NO_POLICY = (
    "no .onnx-ci.yaml found: models are checked by built-in rules (dedupe, drop-unused);"
    " `onnx-ci init` writes one"
)


class Context:
    """`root` bounds what is read and written; `folder` is what the policy's patterns are relative to."""

    def __init__(
        self, here: Path, policy_path: Path | None, checked: CheckedPolicy, *, named: bool = False
    ) -> None:
        self.here = here
        self.repository = find_root(here)
        self.policy_path = policy_path
        self.checked = checked
        self.folder = policy_path.parent if policy_path else self.repository or here
        self.root = self.repository or self.folder
        self.named = named  # by the user: then no other policy counts
        self.tree: Tree | None = None  # what is judged, where that is not the work tree
        self.base = ""  # the commit that a change is reviewed against: that of a pull request, or --since
        self.base_trouble: UsageError | None = None  # why it is not known
        self.base_policies: BasePolicies | None = None  # where policies are taken from, if not from here
        self.notes = () if policy_path else (NO_POLICY,)

    @property
    def policy_name(self) -> str:
        """The policy file as named from the top of the repository; messages name it from here."""
        path = self.policy_path
        inside = path is not None and path.is_relative_to(self.root)
        return path.relative_to(self.root).as_posix() if path and inside else str(path or "")

    @property
    def policy(self) -> Policy:
        return self.checked.policy()


def open_context(policy_option: str | None, here: Path | None = None) -> Context:
    """Find and check the policy: the one that is named, or the nearest upward within the repository."""
    here = (here or Path.cwd()).resolve()
    path = _named(here, policy_option) if policy_option else find_policy(here, find_root(here) or here)
    if path is None:
        return built_in_context(here)
    return _context(here, path, named=bool(policy_option))


def built_in_context(here: Path) -> Context:
    """The rules where there is no policy."""
    return Context(here, None, CheckedPolicy("built-in rules", {"models": [{"path": "**/*.onnx"}]}))


def policy_for(context: Context, folder: Path) -> Path | None:
    """The policy that rules the models of a folder: the one that was named, or the nearest upward."""
    if context.base_policies is not None:
        return context.base_policies.policy_for(folder)
    found = None if context.named else find_policy(folder, context.root)
    inside = found is not None and found.is_relative_to(context.root.resolve())  # a linked folder may not be
    return found if inside else context.policy_path


def context_for(context: Context, policy: Path | None) -> Context:
    """The same place under another policy."""
    if context.base_policies is not None:
        return context.base_policies.context_for(policy)
    if policy is None or policy == context.policy_path:
        return context
    other = _context(context.here, policy)
    other.tree, other.base = context.tree, context.base
    return other


def _context(here: Path, path: Path, *, named: bool = False) -> Context:
    checked = check_policy(path, methods=Catalogue(), name=_shown(path, here))
    return Context(here, path, checked, named=named)


def _named(here: Path, option: str) -> Path:
    path = here / option
    if not path.is_file():
        raise UsageError(f"there is no policy file {option!r}", hint="`onnx-ci init` writes .onnx-ci.yaml")
    return path.resolve()


def _shown(path: Path, here: Path) -> str:
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
