"""Every call we make is one that GitHub describes: its path, its query and its body."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from onnx_ci.action.github import Api
from onnx_ci.errors import ApiFault
from tests.support.comments import comment_step, finished
from tests.support.github import Call, GitHub
from tests.support.node import node_module
from tests.support.reports import run_report
from tests.support.workflows import REPOSITORY

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    file = node_module("@octokit/openapi") / "generated" / "api.github.com.json"
    api: dict[str, Any] = json.loads(file.read_bytes())
    return api


def wrong(call: Call, described: dict[str, Any]) -> list[str]:
    address = urlsplit(call.path)
    path = next((path for path in described["paths"] if matches(path, address.path)), "")
    operation = described["paths"].get(path, {}).get(call.method.lower())
    if not operation:
        return [f"{call.method} {address.path} is not described"]
    parameters = [resolved(described, found) for found in operation.get("parameters", [])]
    known = {found["name"]: found["schema"] for found in parameters if found["in"] == "query"}
    asked = dict(parse_qsl(address.query))
    errors = [f"{name} is not described" for name in asked if name not in known]
    errors += [
        error
        for name, value in asked.items()
        if name in known
        for error in broken(int(value) if value.isdigit() else value, known[name], described)
    ]
    if call.body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        errors += broken(call.body, schema, described)
        errors += [f"{name} is not described" for name in call.body if name not in schema["properties"]]
    return errors


def matches(template: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path) is not None


def resolved(described: dict[str, Any], found: Any) -> Any:
    """What a reference stands for; the description has them one level deep."""
    if "$ref" not in found:
        return found
    for key in found["$ref"].removeprefix("#/").split("/"):
        described = described[key]
    return described


def broken(value: Any, schema: Any, described: dict[str, Any]) -> Iterator[str]:
    registry: Registry[Any] = Registry().with_resource("", DRAFT202012.create_resource(described))
    for error in Draft202012Validator(schema, registry=registry).iter_errors(value):
        yield error.message


def test_all_calls_are_described(github: GitHub, tmp_path: Path, described: dict[str, Any]) -> None:
    pull = github.pull("described", fork=True)
    for path in ("a.onnx", "b.onnx"):
        comment_step(github, tmp_path, run_report(path), finished(pull))
    comment_step(github, tmp_path, run_report(), finished(pull, head_branch="gone"))
    comment_step(github, tmp_path, run_report(), finished(pull), token="token-of-owner")
    api = Api(base=github.url, token="token-of-owner", repository=REPOSITORY)
    api.open_pull("described", "main")
    api.was_closed("described", "0" * 40)
    api.change_pull(pull["number"], "a table")
    for post in (
        lambda: api.create_pull(branch="x", base="main", title="t", body="b"),
        lambda: api.set_status(
            "0" * 40, "failure", "onnx-ci", "1 model", "https://github.com/a/b/actions/runs/1"
        ),
    ):
        with contextlib.suppress(ApiFault):  # the emulator may not know such a branch, or commit
            post()
    calls = [call for call in github.calls if call.path != "/graphql"]
    assert {call.method for call in calls} == {"GET", "POST", "PATCH"}
    assert {"/user", "/pulls"} <= {re.sub(r".*(?=/)", "", urlsplit(call.path).path) for call in calls}
    assert [error for call in calls for error in wrong(call, described)] == []
    assert {call.headers["x-github-api-version"] for call in calls} == {"2022-11-28"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/repos/a/b/issues/1/comments", {"text": "x"}),
        ("POST", "/repos/a/b/issues/1/comments", {"body": 1}),
        ("GET", "/repos/a/b/pulls?state=maybe", None),
        ("GET", "/repos/a/b/pulls?stat=open", None),
        ("PATCH", "/repos/a/b/issues/1/comments", {"body": "x"}),
    ],
)
def test_what_is_not_described_is_seen(described: dict[str, Any], method: str, path: str, body: Any) -> None:
    assert wrong(Call(method, path, {}, body), described)
