"""The few calls to GitHub's API that are made, and which pull request a run was of."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import urlencode, urljoin, urlsplit

from onnx_ci.action.inputs import Event
from onnx_ci.errors import ApiFault, UsageError
from onnx_ci.version import __version__

State = Literal["success", "failure", "error"]
MOST_TRIES = 4
LONGEST_WAIT = 60.0
LARGEST_ANSWER = 40 << 20  # a page of 100 comments, each as long as GitHub allows, is 26 MiB
SECONDS_A_CALL = 30
MOST_MOVES = 3
MOVED = (301, 302, 307, 308)
LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ApiFault("GitHub's answer is not JSON", status=self.status) from None


class _AnyAnswer(urllib.request.HTTPErrorProcessor):
    """Errors and moves are answers too: `Api` looks where they lead before the token goes there."""

    def http_response(self, request: Any, response: Any) -> Any:  # noqa: ARG002
        return response

    https_response = http_response


PAGE = 100
MOST_PAGES = 30  # GitHub allows 2,500 comments in a pull request
NEXT = re.compile(r'<([^<>]*)>\s*;\s*rel="next"')


@dataclass(frozen=True, kw_only=True)
class Comment:
    number: int
    body: str
    author: str


@dataclass(frozen=True, kw_only=True)
class Api:
    """`repository` is OWNER/NAME, of this workflow: the only one that is ever asked about."""

    base: str
    token: str = field(repr=False)
    repository: str
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        try:
            scheme, host, _ = origin(self.base)
        except ValueError:
            scheme, host = "", None
        # A token is sent over an encrypted line, or not beyond this machine.
        if not host or not (scheme == "https" or (scheme == "http" and host in LOCAL)):
            raise ApiFault(f"{self.base!r} is no address of GitHub's API, such as https://api.github.com")
        # Secrets are empty in pull requests of forks. http.client would show a bad one in its message.
        if not re.fullmatch(r"[\x21-\x7e]+", self.token):
            raise ApiFault("the token is empty or not one word of plain characters", status=401)
        if not re.fullmatch(r"[A-Za-z0-9-]+/(?!\.{1,2}$)[A-Za-z0-9._-]+", self.repository):
            raise UsageError(f"{self.repository!r} is no repository", hint="GITHUB_REPOSITORY is OWNER/NAME")

    def comments(self, pull: int) -> list[Comment]:
        return list(map(_comment, self._pages(f"/issues/{pull:d}/comments", {})))

    def create_comment(self, pull: int, body: str) -> Comment:
        address = f"/repos/{self.repository}/issues/{pull:d}/comments"
        return _comment(self.call("POST", address, {"body": body}).json())

    def change_comment(self, number: int, body: str) -> None:
        address = f"/repos/{self.repository}/issues/comments/{number:d}"
        self.call("PATCH", address, {"body": body})

    @property
    def owner(self) -> str:
        return self.repository.partition("/")[0]

    def pulls_of_branch(self, owner: str, branch: str, state: str = "open") -> list[Any]:
        """The only way that finds those of forks: their commits are not in this repository."""
        return self._pages("/pulls", {"state": state, "head": f"{owner}:{branch}"})

    def open_pull(self, branch: str, base: str) -> int:
        """The number of the open pull request from one branch to another; 0: there is none."""
        for pull in self.pulls_of_branch(self.owner, branch):
            if _text(_at(pull, "base"), "ref") == base:
                return _number(pull, "number")
        return 0

    def was_closed(self, branch: str, sha: str) -> bool:
        """Whether a pull request of that branch was closed with that very commit as its head."""
        closed = self.pulls_of_branch(self.owner, branch, "closed")
        return any(_text(_at(pull, "head"), "sha") == sha for pull in closed)

    def create_pull(self, *, branch: str, base: str, title: str, body: str) -> int:
        new = {"title": title, "head": branch, "base": base, "body": body}
        return _number(self.call("POST", f"/repos/{self.repository}/pulls", new).json(), "number")

    def change_pull(self, number: int, body: str) -> None:
        """Its text; the title stays what people made of it."""
        self.call("PATCH", f"/repos/{self.repository}/pulls/{number:d}", {"body": body})

    def set_status(self, sha: str, state: State, context: str, description: str, url: str) -> None:
        body = {"state": state, "context": context, "description": description[:140], "target_url": url}
        self.call("POST", f"/repos/{self.repository}/statuses/{sha}", body)

    def pulls_of_commit(self, sha: str) -> list[Any]:
        if not re.fullmatch(r"[0-9a-f]{40,64}", sha):
            raise UsageError(f"{sha!r} is no commit")
        try:
            return self._pages(f"/commits/{sha}/pulls", {})
        except ApiFault as fault:
            if fault.status in (404, 422):  # no such commit here: it is a fork's
                return []
            raise

    def login(self, graphql: str) -> str:
        """Who the token is. GraphQL tells every token, REST only those of people; "" where neither does."""
        calls: list[tuple[str, str, dict[str, object] | None]] = [("GET", "/user", None)]
        if origin(graphql) == origin(self.base):
            calls.insert(0, ("POST", graphql, {"query": "{viewer{login}}"}))
        for method, address, body in calls:
            try:
                answer = self.call(method, address, body).json()
            except ApiFault as fault:
                if fault.status not in (401, 403, 404):
                    raise
                continue
            login = _at(_at(_at(answer, "data"), "viewer") or answer, "login")
            if isinstance(login, str):
                return login
        return ""

    def _pages(self, path: str, query: dict[str, str]) -> list[Any]:
        """Everything, page by page; the address of the next page is GitHub's, and has to be on its host."""
        items: list[Any] = []
        words = urlencode({**query, "per_page": PAGE}, errors="replace")  # no name holds half a character
        address = f"/repos/{self.repository}{path}?{words}"
        for _ in range(MOST_PAGES):
            answer = self.call("GET", address)
            page = answer.json()
            if not isinstance(page, list):
                raise ApiFault("GitHub's answer is not the list that was asked for", status=answer.status)
            items.extend(page)
            following = NEXT.search(answer.headers.get("link", ""))
            if not following:
                return items
            address = following[1]
        raise ApiFault(f"GitHub's list has more than {MOST_PAGES} pages of {PAGE}")

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Answer:
        """Faults that pass are waited for, as long as that is short; a refusal is an ApiFault at once."""
        address = path if "://" in path else self.base.rstrip("/") + path
        tries = 0
        while True:
            tries += 1
            try:
                return self._followed(method, address, body)
            except ApiFault as fault:
                # What creates something is repeated only where GitHub surely did not do it yet.
                repeatable = fault.passing and (method != "POST" or fault.limited)
                if not repeatable or tries >= MOST_TRIES:
                    raise
                self.sleep(waiting(fault, tries))

    def _followed(self, method: str, address: str, body: Mapping[str, object] | None) -> Answer:
        """A repository that was renamed answers with its new address: the same call is made there."""
        for _ in range(MOST_MOVES + 1):
            if origin(address) != origin(self.base):
                raise ApiFault("GitHub's answer leads to another host, which the token is not for")
            answer = self._once(method, address, body)
            if answer.status not in MOVED:
                return answer
            address = urljoin(address, answer.headers.get("location", ""))
        raise ApiFault(f"GitHub's answer leads on to another address more than {MOST_MOVES} times")

    def _once(self, method: str, address: str, body: Mapping[str, object] | None) -> Answer:
        request = urllib.request.Request(  # noqa: S310 - only http and https pass `__post_init__`
            address,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "User-Agent": f"onnx-ci/{__version__}",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        try:
            opener = urllib.request.build_opener(_AnyAnswer)
            with opener.open(request, timeout=SECONDS_A_CALL) as response:
                answer = _read(response)
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ApiFault(f"GitHub's API could not be reached: {reason}", passing=True) from None
        if answer.status >= 400:
            raise refusal(answer)
        return answer


def waiting(fault: ApiFault, tries: int) -> float:
    """The seconds that GitHub asks for, or else 1, 2, 4; the fault once more where that is too long."""
    seconds = float(2 ** (tries - 1))
    asked = fault.headers.get("retry-after", "")
    renewed = fault.headers.get("x-ratelimit-reset", "")
    if asked.isdecimal():
        seconds = float(asked[:9])
    elif fault.headers.get("x-ratelimit-remaining") == "0" and renewed.isdecimal():
        seconds = max(1.0, float(renewed[:12]) - time.time())
    if seconds > LONGEST_WAIT:
        message = f"{fault.message}; it asks to come back in {seconds:.0f} s, which is not waited for"
        raise ApiFault(message, status=fault.status)
    return seconds


def origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port


def _read(stream: Any) -> Answer:
    """In pieces, so that neither a huge answer nor one that never ends is waited for."""
    ends, pieces, size = time.monotonic() + SECONDS_A_CALL, [], 0
    while piece := stream.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_ANSWER or time.monotonic() > ends:
            raise ApiFault(f"GitHub's answer is larger than {LARGEST_ANSWER >> 20} MiB or takes too long")
    if stream.headers.get("content-length", str(size)) != str(size):  # `read1` does not tell
        raise ApiFault("GitHub's answer ended before its end", passing=True)
    return Answer(
        status=stream.status,
        headers={name.lower(): value for name, value in stream.headers.items()},
        body=b"".join(pieces),
    )


def refusal(answer: Answer) -> ApiFault:
    """An answer that is no success, in plain words; what GitHub says of it is shortened and shown as data."""
    limited = answer.status == 429 or (
        answer.status == 403
        and ("retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0")
    )
    words = {
        401: "GitHub does not know the token (401)",
        403: "the token may not do this (403)",
        404: "there is no such thing, or the token may not see it (404)",
        422: "GitHub does not take it (422)",
    }
    message = words.get(answer.status, f"GitHub answered {answer.status}")
    return ApiFault(
        ("GitHub's rate limit is used up" if limited else message) + _said(answer),
        status=answer.status,
        limited=limited,
        passing=limited or answer.status >= 500,
        headers=answer.headers,
    )


def _said(answer: Answer) -> str:
    try:
        document = json.loads(answer.body)
        return f": {str(document['message'])[:200]!r}"
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""


def _comment(answer: Any) -> Comment:
    author = _at(answer, "user")  # None: the account is gone
    login = _text(author, "login") if author else ""
    return Comment(number=_number(answer, "id"), body=_at(answer, "body") or "", author=login)


def _at(answer: Any, name: str) -> Any:
    return answer.get(name) if isinstance(answer, dict) else None


def _number(answer: Any, name: str) -> int:
    value = _at(answer, name)
    if type(value) is not int:
        raise ApiFault(f"GitHub's answer has no number {name!r}")
    return value


def _text(answer: Any, name: str) -> str:
    value = _at(answer, name)
    if not isinstance(value, str):
        raise ApiFault(f"GitHub's answer has no text {name!r}")
    return value


def pull_of(api: Api, event: Event) -> tuple[int, str]:
    """The number of the pull request that an event is of; or 0, and why there is none."""
    if event.name != "workflow_run":
        number = event.at("pull_request", "number") if event.is_pull else 0
        return (number, "") if isinstance(number, int) and number else (0, "this event is of no pull request")
    if event.text("workflow_run", "event") != "pull_request":
        return 0, "the run was not of a pull request"
    owner = event.text("workflow_run", "head_repository", "owner", "login")
    if not owner:
        return 0, "the repository that the branch was in is gone"
    numbers = _with_head(api.pulls_of_branch(owner, event.branch), event)
    numbers = numbers or _with_head(api.pulls_of_commit(event.head), event)
    if len(numbers) > 1:  # GitHub names those of branches of this repository, never those of forks
        named = event.at("workflow_run", "pull_requests") or ()
        numbers = numbers & {_at(pull, "number") for pull in named} or numbers
    if len(numbers) == 1:
        return numbers.pop(), ""
    if numbers:
        have = f"{len(numbers)} open pull requests have this head"
        return 0, f"{have}, and it can't be told which the run was for"
    return 0, f"no open pull request has {event.head[:12]} as its head: it was closed, or has moved on since"


def _with_head(pulls: list[Any], event: Event) -> set[int]:
    """The open ones with the very commit of a run as their head. Others may have a branch of this name, or
    this commit: the repository has to be the same too."""
    repository = event.at("workflow_run", "head_repository", "id")
    numbers = set()
    for pull in pulls:
        head = _at(pull, "head")
        source = _at(head, "repo")  # None: it is gone
        is_same = _text(head, "sha") == event.head and source and _number(source, "id") == repository
        if is_same and _text(pull, "state") == "open":
            numbers.add(_number(pull, "number"))
    return numbers
