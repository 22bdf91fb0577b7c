"""A cache in an object store: a real server that speaks S3, of which nothing unsigned is believed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import onnx
import pytest

from tests.cli.test_shards import timeless
from tests.support.cli import Done, onnx_ci, plain_environment
from tests.support.models import bloated

BUCKET = "models"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with one bucket."""
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as file:
        start = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        process = subprocess.Popen(start, stdout=file, stderr=file, env=plain_environment())
    try:
        deadline = time.monotonic() + 60
        while "Running on http" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        address = log.read_text().split("Running on ")[1].split()[0]
        request(f"{address}/{BUCKET}", "PUT")
        yield address
    finally:
        process.kill()
        process.wait()


def request(url: str, method: str, data: bytes | None = None) -> bytes:
    sent = Request(
        url,
        data=data,
        method=method,
        headers={"Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request"},
    )
    with urlopen(sent, timeout=30) as answer:
        return bytes(answer.read())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "models"
    place.mkdir()
    onnx.save(bloated(), place / "m.onnx")
    return place


def check(
    folder: Path, server: str, machine: str, prefix: str, *, key: str = "the same", **also: str
) -> Done:
    """As on a machine of its own, with a home of its own."""
    home = folder.parent / machine
    env = {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_STATE_HOME": str(home / "state"),
        "ONNX_CI_CACHE": f"s3://{BUCKET}/{prefix}",
        "ONNX_CI_CACHE_KEY": key,
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-east-1",
        **also,
    }
    return onnx_ci("check", "--all", "--format", "json", cwd=folder, env=env)


def entries(server: str, prefix: str) -> list[str]:
    listing = request(f"{server}/{BUCKET}?list-type=2&prefix={prefix}/", "GET").decode()
    return [part.split("</Key>")[0] for part in listing.split("<Key>")[1:]]


def steps(done: Done) -> tuple[Any, Any]:
    """With the seconds they took, which two runs do not have in common unless one remembers the other."""
    (outcome,) = done.json["models"]
    return outcome["steps"], outcome["work"]


@pytest.mark.real
def test_what_one_machine_proved_another_need_not_prove(folder: Path, server: str) -> None:
    first = check(folder, server, "first", "shared")
    assert entries(server, "shared")
    second = check(folder, server, "second", "shared")
    assert second.json["notes"] == first.json["notes"]
    assert steps(second) == steps(first)
    assert timeless(second.json) == timeless(first.json)


@pytest.mark.real
def test_what_is_not_signed_with_the_key_counts_as_not_there(folder: Path, server: str) -> None:
    first = check(folder, server, "first", "strange", key="of a stranger")
    names = entries(server, "strange")
    assert names
    second = check(folder, server, "second", "strange")
    assert steps(second) != steps(first)  # worked out anew, and put in its place
    for name in names:
        request(f"{server}/{BUCKET}/{name}", "PUT", b"onnx-ci outcome 1\n" + os.urandom(1000))
    third = check(folder, server, "third", "strange")
    assert steps(third) != steps(second)
    assert timeless(third.json) == timeless(first.json)


def test_a_folder_by_its_url_is_a_store_as_well(folder: Path) -> None:
    shared = folder.parent / "shared"
    first = check(folder, "", "first", "", ONNX_CI_CACHE=f"file://{shared}")
    assert [path.suffix for path in shared.iterdir()] == [".outcome"]
    second = check(folder, "", "second", "", ONNX_CI_CACHE=f"file://{shared}")
    assert steps(second) == steps(first)
    other = check(folder, "", "third", "", ONNX_CI_CACHE="nosuch://place")
    assert other.code == first.code
    assert any("the cache nosuch://place could not be read" in note for note in other.json["notes"])


@pytest.mark.real
def test_a_store_that_is_not_there_is_a_note(folder: Path) -> None:
    done = check(folder, "http://127.0.0.1:1", "first", "x", AWS_MAX_ATTEMPTS="1")
    assert done.code == 1
    assert done.json["models"][0]["verdict"] == "would_shrink"
    assert any(note.startswith(f"the cache s3://{BUCKET}/x could not be read") for note in done.json["notes"])
