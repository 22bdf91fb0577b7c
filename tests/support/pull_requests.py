"""A repository on a server that is a folder, with pull requests, and events as GitHub would send them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated
from tests.support.workflows import REPOSITORY

POLICY = "    tolerance: {cosine: 0.999}\n    methods: [dedupe, drop-unused]\n"


class Hosted:
    """`origin` is the server, `author` a clone in which somebody works."""

    def __init__(self, home: Path) -> None:
        self.origin = Repository(home / "origin.git", bare=True)
        self.author = Repository(home / "author")
        self.author.git("remote", "add", "origin", f"file://{self.origin.root}")
        self.home = home
        write_policy(self.author.root, POLICY)
        self.push("start")

    def push(self, message: str, branch: str = "main") -> str:
        sha = self.author.commit_all(message)
        self.author.git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        return sha

    def add_model(self, name: str = "models/a.onnx", seed: int = 0) -> None:
        path = self.author.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(bloated(seed=seed), path)

    def pull_request(self, branch: str = "feature", *, fork: str = "", number: int = 7) -> dict[str, Any]:
        """A branch with what is in the author's folder, the merge that GitHub makes of it, and the event."""
        self.author.git("checkout", "--quiet", "-B", branch)
        head = self.author.commit_all("a change")
        if not fork:
            self.author.git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        base = self.author.git("rev-parse", "origin/main").strip()
        tree = self.author.git("rev-parse", "HEAD^{tree}").strip()
        merge = self.author.git("commit-tree", tree, "-p", base, "-p", head, "-m", "merge").strip()
        self.author.git("push", "--quiet", "origin", f"{merge}:refs/pull/{number}/merge")
        source = fork or REPOSITORY
        return {
            "number": number,
            "pull_request": {
                "number": number,
                "head": {"ref": branch, "sha": head, "repo": {"full_name": source, "fork": bool(fork)}},
                "base": {"ref": "main", "sha": base, "repo": {"full_name": REPOSITORY}},
            },
            "repository": {"full_name": REPOSITORY, "default_branch": "main"},
        }

    def clone(self, name: str, *arguments: str, branch: str = "") -> Repository:
        """What actions/checkout leaves, or a colleague's clone."""
        which = ["--branch", branch] if branch else []
        self.author.git(
            "clone", "--quiet", *arguments, *which, f"file://{self.origin.root}", str(self.home / name)
        )
        return Repository(self.home / name)

    def log(self, branch: str = "main") -> list[str]:
        return self.origin.git("log", "--format=%s", branch).splitlines()

    def size(self, name: str, branch: str = "main") -> int:
        return int(self.origin.git("cat-file", "-s", f"{branch}:{name}"))
