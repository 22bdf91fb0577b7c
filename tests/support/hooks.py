"""Repositories with our hooks installed, by pre-commit or prek, as users have them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.support.git_repo import Repository

PROJECT = Path(__file__).resolve().parent.parent.parent
RUNNERS = ("pre-commit", "prek")


class Hooked(Repository):
    """The hook is that of the manifest, but runs the onnx-ci that is installed here: making an
    environment of its own takes long, and is tested once."""

    def __init__(self, root: Path, runner: str, hook: str, *types: str, args: Sequence[str] = ()) -> None:
        super().__init__(root)
        self.runner = runner
        hooks = yaml.safe_load((PROJECT / ".pre-commit-hooks.yaml").read_text())
        (chosen,) = (each for each in hooks if each["id"] == hook)
        config = {"repos": [{"repo": "local", "hooks": [{**chosen, "language": "system", "args": [*args]}]}]}
        (root / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
        kinds = [word for kind in types or ("pre-commit",) for word in ("--hook-type", kind)]
        done = self.run_hooks("install", *kinds)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *command: str, stdin: str | None = None, **also: str) -> subprocess.CompletedProcess[str]:
        home = str(self.root / ".git" / "hooks-home")
        return super().run(*command, stdin=stdin, **{"PRE_COMMIT_HOME": home, "PREK_HOME": home, **also})

    def run_hooks(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.runner, *arguments)

    def commit(self, *arguments: str) -> tuple[bool, str]:
        """Whether a real commit went through, and what was said."""
        done = self.attempt("commit", "-m", "a change", *arguments)
        return done.returncode == 0, done.stdout + done.stderr
