"""One comment for each key, in the emulator: made once, changed in place, and no one else's."""

from __future__ import annotations

import pytest

from onnx_ci.action.comment import LONGEST, Sticky, mark
from onnx_ci.action.github import Api
from onnx_ci.errors import ApiFault, UsageError
from tests.support.github import Call, GitHub, Reply
from tests.support.workflows import REPOSITORY

pytestmark = pytest.mark.real

BOT = "github-actions[bot]"


@pytest.fixture
def said() -> list[str]:
    return []


def sticky(github: GitHub, said: list[str], *, key: str = "default", token: str = "write") -> Sticky:
    secret = github.tokens.get(token, token)
    waits: list[float] = []
    api = Api(base=github.url, token=secret, repository=REPOSITORY, sleep=waits.append)
    return Sticky(api=api, key=key, author=api.login(f"{github.url}/graphql"), say=said.append)


def bodies(github: GitHub, pull: int) -> list[str]:
    return [comment["body"] for comment in github.comments(pull)]


def test_it_is_made_found_and_changed(github: GitHub, said: list[str]) -> None:
    pull = github.pull("made")["number"]
    for text in ("first", "second"):
        sticky(github, said).put(pull, text)
    assert bodies(github, pull) == [f"{mark('default')}\nsecond"]
    assert [comment["user"]["login"] for comment in github.comments(pull)] == [BOT]
    assert len(github.made("POST")) == len(github.made("PATCH")) == 1


def test_what_is_said_already_is_not_written_again(github: GitHub, said: list[str]) -> None:
    pull = github.pull("same")["number"]
    sticky(github, said).put(pull, "text\n")
    sticky(github, said).put(pull, "text\n")
    assert not github.made("PATCH")
    assert "already says this" in said[-1]


def test_keys_have_a_comment_each(github: GitHub, said: list[str]) -> None:
    pull = github.pull("keys")["number"]
    for text in ("one", "two"):
        for key in ("default", "nightly", "night"):
            sticky(github, said, key=key).put(pull, text)
    assert sorted(bodies(github, pull)) == sorted(
        f"{mark(key)}\ntwo" for key in ("default", "nightly", "night")
    )


def test_it_is_found_behind_many_others(github: GitHub, said: list[str]) -> None:
    pull = github.pull("many")["number"]
    for number in range(105):
        github.comment(pull, f"chat {number}", "token-of-stranger")
    github.comment(pull, f"{mark('default')}\nold", github.tokens["write"])
    sticky(github, said).put(pull, "new")
    assert bodies(github, pull)[-1] == f"{mark('default')}\nnew"
    assert len(github.comments(pull)) == 106
    assert len([call for call in github.made("GET") if "/comments" in call.path]) == 2


def test_a_strangers_mark_is_left_alone(github: GitHub, said: list[str]) -> None:
    pull = github.pull("stranger")["number"]
    theirs = f"{mark('default')}\nmine now"
    for token in ("token-of-stranger", "token-of-owner"):
        github.comment(pull, theirs, token)
    sticky(github, said).put(pull, "report")
    assert bodies(github, pull) == [theirs, theirs, f"{mark('default')}\nreport"]
    assert not github.made("PATCH")


def test_a_mark_in_the_middle_is_none(github: GitHub, said: list[str]) -> None:
    """Our own account may quote what others wrote."""
    pull = github.pull("quoted")["number"]
    quoted = f"They said:\n{mark('default')}\nhello"
    github.comment(pull, quoted, github.tokens["write"])
    sticky(github, said).put(pull, "report")
    assert bodies(github, pull)[0] == quoted


def test_of_several_the_newest_is_kept(github: GitHub, said: list[str]) -> None:
    pull = github.pull("several")["number"]
    for text in ("a", "b"):
        github.comment(pull, f"{mark('default')}\n{text}", github.tokens["write"])
    for _ in range(2):
        sticky(github, said).put(pull, "report")
    older, newest = bodies(github, pull)
    assert newest == f"{mark('default')}\nreport"
    assert "A later comment" in older
    assert any("same key and is older" in line for line in said)
    assert len(github.made("PATCH")) == 2


def test_one_who_comments_with_a_token_of_their_own(github: GitHub, said: list[str]) -> None:
    pull = github.pull("own token")["number"]
    for text in ("first", "second"):
        sticky(github, said, token="token-of-owner").put(pull, text)
    assert bodies(github, pull) == [f"{mark('default')}\nsecond"]
    sticky(github, said).put(pull, "of the bot")
    assert len(github.comments(pull)) == 2


def test_a_comment_that_was_made_in_spite_of_an_error_is_not_made_again(
    github: GitHub, said: list[str]
) -> None:
    pull = github.pull("in spite")["number"]

    def fault(call: Call) -> Reply | None:
        if call.method == "POST" and call.path.endswith("/comments") and not github.comments(pull):
            github.comment(pull, call.body["body"], github.tokens["write"])
            return 502, {}, b""
        return None

    github.fault = fault
    sticky(github, said).put(pull, "report")
    assert bodies(github, pull) == [f"{mark('default')}\nreport"]


def test_a_token_that_may_only_read_is_refused_by_github(github: GitHub, said: list[str]) -> None:
    pull = github.pull("read only")["number"]
    with pytest.raises(ApiFault, match="403") as fault:
        sticky(github, said, token="read").put(pull, "report")
    assert fault.value.status == 403
    assert bodies(github, pull) == []


def test_a_comment_has_no_more_than_github_takes(github: GitHub, said: list[str]) -> None:
    pull = github.pull("long")["number"]
    room = LONGEST - len(mark("default")) - 1
    sticky(github, said).put(pull, "🌈" * room)
    assert len(bodies(github, pull)[0]) == LONGEST
    with pytest.raises(ApiFault, match="65,537"):
        sticky(github, said).put(pull, "x" * (room + 1))


@pytest.mark.parametrize("key", ["", "a--b", "a>b", "-a", "a ", "a\nb", "x" * 51, "ä", "a-->", "a. b"])
def test_a_key_that_could_end_the_mark_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="key of a comment"):
        mark(key)
