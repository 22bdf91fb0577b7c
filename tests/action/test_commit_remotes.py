"""Mode commit with a server that wants a token, and with models in Git LFS."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from tests.support.action import call
from tests.support.git_repo import Repository
from tests.support.git_server import git_server
from tests.support.pull_requests import Hosted

TOKEN = "ghs_an0therT0ken"
POINTER = "version https://git-lfs"


@pytest.fixture
def host(tmp_path: Path) -> Hosted:
    made = Hosted(tmp_path)
    made.add_model()
    made.push("a bloated model")
    return made


@pytest.fixture
def served(host: Hosted) -> Repository:
    """A clone whose checkout has left a token that is no good any more."""
    host.origin.git("config", "http.receivepack", "true")
    return host.clone("clone", "--depth=1")


@pytest.mark.sampled(0)
def test_the_token_goes_to_the_server_and_nowhere_else(host: Hosted, served: Repository) -> None:
    with git_server(host.home, TOKEN) as server:
        served.git("remote", "set-url", "origin", f"{server.url}/origin.git")
        served.git("config", f"http.{server.url}/.extraheader", "AUTHORIZATION: basic b2xkOnRva2Vu")
        also = {"GITHUB_SERVER_URL": server.url, "ONNX_CI_JOB_TOKEN": "another", "GIT_TRACE": "1"}
        done = call(served.root, mode="commit", token=TOKEN, also=also)
        assert done.outputs["committed"] == "true", done.log
        assert {tuple(given) for given in server.seen} == {(server.wanted,)}  # once a call, never the old one
    secret = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    kept = [path for path in host.home.rglob("*") if path.is_file() and path.suffix != ".onnx"]
    assert not [path for path in kept if any(s.encode() in path.read_bytes() for s in (TOKEN, secret))]
    assert TOKEN not in done.log
    assert secret not in done.log
    assert "starts no workflow" not in done.log  # it is not the workflow's own token


@pytest.mark.sampled(0)
def test_a_token_that_may_not_write_is_told_so(host: Hosted, served: Repository) -> None:
    with git_server(host.home, TOKEN) as server:
        served.git("remote", "set-url", "origin", f"{server.url}/origin.git")
        done = call(served.root, mode="commit", token="of-a-reader", also={"GITHUB_SERVER_URL": server.url})
    assert (done.code, done.outputs["committed"]) == ("1", "false")
    assert "permissions: contents: write" in done.log
    assert done.patch.is_file()


@pytest.mark.real
@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_a_model_in_lfs_is_committed_as_a_pointer_and_its_content_sent(tmp_path: Path) -> None:
    host = Hosted(tmp_path)
    host.author.git("lfs", "install", "--local")
    host.author.git("lfs", "track", "*.onnx")
    host.add_model()
    host.push("a bloated model")
    assert host.origin.git("show", "main:models/a.onnx").startswith(POINTER)
    clone = host.clone("clone", "--depth=1", branch="main")  # no git lfs install: neither filter nor hook
    clone.git("lfs", "fetch")
    assert not (clone.root / ".git" / "hooks" / "pre-push").exists()

    done = call(clone.root, mode="commit")

    assert done.outputs["committed"] == "true", done.log
    pointer = host.origin.git("show", "main:models/a.onnx")
    assert pointer.startswith(POINTER)
    digest = pointer.split("sha256:")[1].split()[0]
    stored = host.origin.root / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
    assert stored.read_bytes() == (clone.root / "models" / "a.onnx").read_bytes()
    assert stored.stat().st_size < 20_000
    assert clone.git("-c", "filter.lfs.clean=git-lfs clean -- %f", "status", "--porcelain") == ""


@pytest.mark.real
@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_without_git_lfs_no_model_is_added_as_it_is(tmp_path: Path) -> None:
    """The content itself is in the work tree, as after a download by other means."""
    host = Hosted(tmp_path)
    host.author.git("lfs", "install", "--local")
    host.author.git("lfs", "track", "*.onnx")
    host.add_model()
    host.push("a bloated model")
    clone = host.clone("clone")
    shutil.copyfile(host.author.root / "models" / "a.onnx", clone.root / "models" / "a.onnx")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(str(shutil.which("git")))
    done = call(clone.root, mode="commit", also={"PATH": str(tmp_path / "bin")})
    assert (done.code, done.outputs["committed"]) == ("1", "false")
    assert "belongs to Git LFS, which is not installed here" in done.log
    assert host.log()[0] == "a bloated model"


def test_a_git_that_would_not_see_the_token_is_refused(host: Hosted, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    real = shutil.which("git")
    old.write_text(
        f'#!/bin/sh\ncase "$*" in *version) echo "git version 2.30.2";; *) exec {real} "$@";; esac\n'
    )
    old.chmod(0o755)
    clone = host.clone("clone")
    done = call(clone.root, mode="commit", also={"PATH": f"{old.parent}:/usr/bin:/bin"})
    assert done.code == "3"
    assert "this runner has git 2.30, and mode commit needs 2.31 or later" in done.log
    assert clone.git("status", "--porcelain") == ""
