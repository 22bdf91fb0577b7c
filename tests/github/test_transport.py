"""Calls to GitHub's API when it does not answer as it should: nothing hangs, grows or tells the token."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from onnx_ci.action.github import Api
from onnx_ci.errors import ApiFault, UsageError
from tests.support.github import Call, GitHub, Reply
from tests.support.workflows import REPOSITORY

pytestmark = pytest.mark.real

SECRET = "ghs_very-secret-token"


class Slept(list[float]):
    """Waits that would have been made."""


@pytest.fixture
def slept() -> Slept:
    return Slept()


@pytest.fixture
def api(github: GitHub, slept: Slept) -> Api:
    return Api(base=github.url, token=SECRET, repository=REPOSITORY, sleep=slept.append)


def answers(*replies: Reply) -> Callable[[Call], Reply | None]:
    """These one after the other, then the emulator again."""
    left = list(replies)
    return lambda _: left.pop(0) if left else None


def refused(github: GitHub, api: Api, *replies: Reply) -> ApiFault:
    github.fault = answers(*replies)
    with pytest.raises(ApiFault) as fault:
        api.comments(1)
    assert SECRET not in f"{fault.value} {fault.value.hint}"
    return fault.value


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "does not know the token"),
        (403, "may not do this"),
        (404, "no such thing"),
        (422, "not take it"),
    ],
)
def test_refusals_are_told_apart_and_not_repeated(
    github: GitHub, api: Api, slept: Slept, status: int, words: str
) -> None:
    fault = refused(github, api, (status, {}, b'{"message": "No\\n::error::x"}'))
    assert words in fault.message
    assert "\n" not in fault.message
    assert fault.status == status
    assert len(github.calls) == 1
    assert not slept


def test_what_passes_is_waited_for(github: GitHub, api: Api, slept: Slept) -> None:
    pull = github.pull("waiting")["number"]
    github.fault = answers(
        (502, {}, b""),
        (429, {"retry-after": "7"}, b""),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 20)}, b""),
    )
    assert api.comments(pull) == []
    assert slept[:2] == [1.0, 7.0]
    assert 1 < slept[2] <= 20


def test_it_is_not_waited_for_ever(github: GitHub, api: Api, slept: Slept) -> None:
    assert "500" in refused(github, api, *[(500, {}, b"")] * 9).message
    assert slept == [1.0, 2.0, 4.0]


def test_nobody_waits_an_hour(github: GitHub, api: Api, slept: Slept) -> None:
    fault = refused(github, api, (403, {"retry-after": "3600"}, b""))
    assert "rate limit" in fault.message
    assert "3600 s" in fault.message
    assert not slept


def test_a_comment_is_not_made_twice_by_trying_again(github: GitHub, api: Api, slept: Slept) -> None:
    github.fault = answers((502, {}, b""))
    with pytest.raises(ApiFault):
        api.create_comment(1, "text")
    assert len(github.calls) == 1
    assert not slept


def test_a_renamed_repository_is_followed_with_the_same_call(github: GitHub, api: Api) -> None:
    pull = github.pull("renamed")["number"]
    token = github.tokens["write"]
    path = f"/repos/{REPOSITORY}/issues/{pull}/comments"
    github.fault = lambda call: (307, {"location": path}, b"") if "before" in call.path else None
    Api(base=github.url, token=token, repository="octo/before").create_comment(pull, "text")
    assert [comment["body"] for comment in github.comments(pull)] == ["text"]
    assert [call.method for call in github.calls] == ["POST", "POST"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_the_token_goes_to_no_other_host(github: GitHub, api: Api, status: int) -> None:
    elsewhere = github.url.replace("127.0.0.1", "localhost") + "/elsewhere"
    fault = refused(github, api, (status, {"location": elsewhere}, b""))
    assert "another host" in fault.message
    assert [call for call in github.calls if "elsewhere" in call.path] == []


def test_nor_does_it_for_the_next_page(github: GitHub, api: Api) -> None:
    elsewhere = github.url.replace("127.0.0.1", "localhost") + "/elsewhere"
    fault = refused(github, api, (200, {"link": f'<{elsewhere}>; rel="next"'}, b"[]"))
    assert "another host" in fault.message
    assert len(github.calls) == 1


def test_moves_in_a_circle_end(github: GitHub, api: Api) -> None:
    assert "more than 3" in refused(github, api, *[(301, {"location": "/round"}, b"")] * 9).message


def test_pages_without_end_end(github: GitHub, api: Api) -> None:
    more = (200, {"link": f'<{github.url}/more>; rel="next"'}, b"[]")
    assert "more than 30 pages" in refused(github, api, *[more] * 99).message


def test_a_huge_answer_is_not_read_to_its_end(github: GitHub, api: Api) -> None:
    huge = (200, {"content-length": str(1 << 40)}, b"[" + b" " * (41 << 20))
    assert "larger than 40 MiB" in refused(github, api, huge).message


@pytest.mark.parametrize("body", [b"<html>", b"[" * 200_000, b'{"a": 1}', b'[{"id": "1"}]', b"[7]", b"\xff"])
def test_an_answer_of_another_kind_is_said_to_be_so(github: GitHub, api: Api, body: bytes) -> None:
    assert "GitHub's answer" in refused(github, api, (200, {}, body)).message


def test_a_line_that_breaks_is_tried_again(github: GitHub, api: Api, slept: Slept) -> None:
    pull = github.pull("broken line")["number"]
    github.fault = answers((200, {"content-length": "5", "connection": "close"}, b""))
    assert api.comments(pull) == []
    assert len(slept) == 1


def test_no_server_at_all(slept: Slept) -> None:
    api = Api(base="http://127.0.0.1:9", token=SECRET, repository=REPOSITORY, sleep=slept.append)
    with pytest.raises(ApiFault, match="could not be reached"):
        api.comments(1)
    assert len(slept) == 3


@pytest.mark.parametrize(
    "base",
    ["http://api.example.com", "file:///etc/passwd", "ftp://x", "api.github.com", "https://", "http://["],
)
def test_a_token_goes_over_encrypted_lines_only(base: str) -> None:
    with pytest.raises(ApiFault, match="no address of GitHub's API"):
        Api(base=base, token=SECRET, repository=REPOSITORY)


@pytest.mark.parametrize("token", ["", "secret\nvalue", "secret value", "sécret", "secret\r"])
def test_a_token_that_is_none_is_not_shown(token: str) -> None:
    with pytest.raises(ApiFault) as error:
        Api(base="https://api.github.com", token=token, repository=REPOSITORY)
    assert "cret" not in str(error.value)


def test_the_token_is_not_in_what_is_printed_of_objects() -> None:
    assert SECRET not in repr(Api(base="https://api.github.com", token=SECRET, repository=REPOSITORY))


@pytest.mark.parametrize("repository", ["owner", "owner/..", "owner/a/b", "owner/a?b", "", "../x"])
def test_only_a_repository_is_one(repository: str) -> None:
    with pytest.raises(UsageError):
        Api(base="https://api.github.com", token=SECRET, repository=repository)
