"""The policies of the commit that a change is reviewed against, read out of git."""

from __future__ import annotations

import io
import os
import posixpath
from collections.abc import Iterable
from pathlib import Path

from onnx_ci.entry.context import Context, built_in_context
from onnx_ci.errors import EnvironmentFault
from onnx_ci.methods.catalogue import Catalogue
from onnx_ci.policy.compose import LARGEST
from onnx_ci.policy.load import FILE_NAMES, check_content
from onnx_ci.targets.tree import LINK, Tree

NO_POLICY = "the base has no .onnx-ci.yaml: its models are checked by built-in rules (dedupe, drop-unused)"
_MOST_LINKS = 5


class BasePolicies:
    """As `policy_for` and `context_for` find them in the work tree, for the commit in `head.base`."""

    def __init__(self, head: Context) -> None:
        if head.repository is None:
            raise EnvironmentFault("the policy of a base needs a git repository")
        self.head = head
        self.root = head.repository
        self.tree = Tree(self.root, head.base)
        self._contexts: dict[Path | None, Context] = {}
        self._contents: dict[str, bytes | None] = {}

    def look_up(self, models: Iterable[Path]) -> None:
        """Ask git at once for all files that may be the policy of a model."""
        folders = {folder for model in models for folder in self._upward(model.parent)}
        self.tree.look_up(
            (folder / name).relative_to(self.root).as_posix() for folder in folders for name in FILE_NAMES
        )

    def policy_for(self, folder: Path) -> Path | None:
        if self.head.named:
            path = self.head.policy_path
            return path if path and self._is_there(path) else None
        return self._nearest(folder) or self._nearest(self.head.here)

    def context_for(self, policy: Path | None) -> Context:
        """The same place under a policy as it is in the base; a PolicyError where that one is wrong."""
        if policy not in self._contexts:
            self._contexts[policy] = self._opened(policy)
        return self._contexts[policy]

    def _opened(self, policy: Path | None) -> Context:
        here = self.head.here
        if policy is None:
            context = built_in_context(here)
            context.notes = (NO_POLICY,)
        elif not policy.is_relative_to(self.root):  # a named one from elsewhere: no change can touch it
            context = Context(here, policy, self.head.checked, named=True)
        else:
            name = policy.relative_to(self.root).as_posix()
            file = f"{self.head.base[:10]}:{name}"
            checked = check_content(
                self._content(name) or b"", file=file, folder=policy.parent, methods=Catalogue()
            )
            context = Context(here, policy, checked, named=self.head.named)
        context.tree, context.base, context.base_policies = self.head.tree, self.head.base, self
        return context

    def _nearest(self, folder: Path) -> Path | None:
        for each in self._upward(folder):
            for name in FILE_NAMES:
                if self._is_there(each / name):
                    return each / name
        return None

    def _upward(self, folder: Path) -> list[Path]:
        """The folders up to the top of the repository, the nearest first; none from outside of it."""
        start = folder.resolve()
        return [each for each in (start, *start.parents) if each.is_relative_to(self.root)]

    def _is_there(self, path: Path) -> bool:
        if not path.is_relative_to(self.root):
            return True
        return self._content(path.relative_to(self.root).as_posix()) is not None

    def _content(self, name: str) -> bytes | None:
        if name not in self._contents:
            self._contents[name] = self._read(name)
            self.tree.close()
        return self._contents[name]

    def _read(self, name: str) -> bytes | None:
        """What a file holds, whatever links are on the way; None where it is not there."""
        for _ in range(_MOST_LINKS):
            entry = None if name.startswith(("/", "..")) else self.tree.entry(name)
            if entry is None or not entry.mode.startswith(("100", LINK)):
                return None
            if self.tree.size(entry) > LARGEST:
                return b" " * (LARGEST + 1)
            content = io.BytesIO()
            self.tree.objects.copy(entry.blob, content)
            if entry.mode != LINK:
                return content.getvalue()
            target = os.fsdecode(content.getvalue())
            name = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        return None
