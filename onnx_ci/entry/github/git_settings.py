"""Settings for git, through the environment alone: no file and no argument has them."""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from onnx_ci.errors import EnvironmentFault
from onnx_ci.targets.git import ask_git, git_or_none, run_git

Settings = Sequence[tuple[str, str]]
LEAST_GIT = (2, 31)
BOT = "github-actions[bot]"
BOT_ADDRESS = "41898282+github-actions[bot]@users.noreply.github.com"


@contextlib.contextmanager
def git_settings(settings: Settings) -> Iterator[None]:
    """Added to those that are in the environment already, and taken away again."""
    before = dict(os.environ)
    count = int(before.get("GIT_CONFIG_COUNT") or 0)
    for number, (key, value) in enumerate(settings, count):
        os.environ[f"GIT_CONFIG_KEY_{number}"] = key
        os.environ[f"GIT_CONFIG_VALUE_{number}"] = value
    os.environ["GIT_CONFIG_COUNT"] = str(count + len(settings))
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("GIT_CONFIG_")]:
            del os.environ[name]
        os.environ.update({k: v for k, v in before.items() if k.startswith("GIT_CONFIG_")})


def credentials(token: str) -> Settings:
    """The token for GitHub's own host, as a header. The empty one before drops what a checkout has left:
    two of them would be refused."""
    if not token:
        return ()
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    key = f"http.{server.rstrip('/')}/.extraheader"
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return ((key, ""), (key, f"AUTHORIZATION: basic {secret}"))


def require_git(root: Path) -> None:
    """Older ones do not look for settings in the environment, and would push without the token."""
    found = re.search(r"(\d+)\.(\d+)", run_git(root, "version"))
    if found and (int(found[1]), int(found[2])) < LEAST_GIT:
        raise EnvironmentFault(
            f"this runner has git {found[0]}, and mode commit needs 2.31 or later", hint="install a newer git"
        )


def ownership(root: Path) -> Settings:
    """In a container the checkout belongs to another user, and git would refuse to look at it."""
    return (("safe.directory", str(root)),)


def identity(root: Path) -> Settings:
    """Who commits: whoever is set up on the runner, or else GitHub's own bot."""
    wanted = (("user.name", BOT), ("user.email", BOT_ADDRESS))
    return tuple((key, value) for key, value in wanted if not _is_set(root, key))


def _is_set(root: Path, key: str) -> bool:
    name = {"user.name": "GIT_COMMITTER_NAME", "user.email": "GIT_COMMITTER_EMAIL"}[key]
    return bool(os.environ.get(name) or (ask_git(root, "config", "--get", key) or "").strip())


def lfs_filter(root: Path) -> Settings:
    """Git LFS as `git lfs install` sets it up, where nobody did: else models would be added as they are."""
    if ask_git(root, "config", "--get", "filter.lfs.clean") or git_or_none(root, "lfs", "version") is None:
        return ()
    return (
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge --skip -- %f"),
        ("filter.lfs.process", "git-lfs filter-process --skip"),
        ("filter.lfs.required", "true"),
    )
