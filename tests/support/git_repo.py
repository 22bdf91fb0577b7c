"""Real git repositories for tests, untouched by the user's own configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")

# What a CI job or a hook that runs these tests would tell the command.
FOREIGN = ("GIT_", "GITHUB_", "CI_", "PRE_COMMIT", "SYSTEM_PULL", "CHANGE_", "BUILDKITE_", "BITBUCKET_")


class Repository:
    """A repository in a folder, made if it is not one yet."""

    def __init__(self, root: Path, *, bare: bool = False) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        if not (root / ".git").exists():
            self.git("init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))

    def attempt(self, *arguments: str, **also: str) -> subprocess.CompletedProcess[str]:
        """Run git, whether it succeeds or not; `also` goes into its environment."""
        return self.run("git", *IDENTITY, *arguments, **also)

    def run(self, *command: str, stdin: str | None = None, **also: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **also}
        # A hook finds the programs that are installed beside this Python.
        environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
        return subprocess.run(
            command,
            cwd=self.root,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def git(self, *arguments: str, **also: str) -> str:
        done = self.attempt(*arguments, **also)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def commit_all(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def empty_commits(self, count: int) -> None:
        """History, in one call: each commit holds what the last one did."""
        branch = self.git("symbolic-ref", "HEAD").strip()
        who = "committer test <test@example.com> {} +0000"
        made = [f"commit {branch}\n{who.format(n)}\ndata 1\nx\n" for n in range(1, count + 1)]
        made[0] += f"from {branch}^0\n"
        self.git("fast-import", "--quiet", stdin="".join(made))

    def forget_originals(self) -> None:
        """As in a clone that never had what `fix` kept here."""
        for ref in self.git("for-each-ref", "--format=%(refname)", "refs/onnx-ci").split():
            self.git("update-ref", "-d", ref)
        self.git("prune", "--expire=now")


def write_policy(folder: Path, rule: str = "", rest: str = "") -> None:
    """A policy with one rule for every model; `rule` is more of that rule, `rest` what follows it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f'version: 1\nmodels:\n  - path: "**/*.onnx"\n{rule}{rest}'
    (folder / ".onnx-ci.yaml").write_text(text)
