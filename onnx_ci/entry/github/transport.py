"""One call to GitHub's API: bounded in time and size, repeated where it helps, the token kept to its host."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urljoin, urlsplit

from onnx_ci.entry.github.patience import Patience
from onnx_ci.errors import ApiFault
from onnx_ci.version import __version__

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


class _Stay(urllib.request.HTTPRedirectHandler):
    """Moves are followed by `Transport`, which looks where they lead before the token goes there."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Transport:
    base: str
    token: str = field(repr=False)
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        checked_address(self.base)
        # Secrets are empty in pull requests of forks. http.client would show a bad one in its message.
        if not re.fullmatch(r"[\x21-\x7e]+", self.token):
            raise ApiFault("the token is empty or not one word of plain characters", status=401)

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Answer:
        """Faults that pass are waited for, as long as that is short; a refusal is an ApiFault at once."""
        address = path if "://" in path else self.base.rstrip("/") + path
        if origin(address) != origin(self.base):
            raise ApiFault("GitHub's answer leads to another host, which the token is not for")
        patience = Patience(method=method, sleep=self.sleep)
        while True:
            try:
                return self._followed(method, address, body)
            except ApiFault as fault:
                patience.wait_or_raise(fault)

    def _followed(self, method: str, address: str, body: Mapping[str, object] | None) -> Answer:
        """A repository that was renamed answers with its new address: the same call is made there."""
        for _ in range(MOST_MOVES + 1):
            answer = self._once(method, address, body)
            if answer.status not in MOVED:
                return answer
            address = urljoin(address, answer.headers.get("location", ""))
            if origin(address) != origin(self.base):
                raise ApiFault("GitHub's answer leads to another host, which the token is not for")
        raise ApiFault(f"GitHub's answer leads on to another address more than {MOST_MOVES} times")

    def _once(self, method: str, address: str, body: Mapping[str, object] | None) -> Answer:
        request = urllib.request.Request(  # noqa: S310 - only http and https pass `checked_address`
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
            with _opened(request) as response:
                answer = _read(response)
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ApiFault(f"GitHub's API could not be reached: {reason}", passing=True) from None
        if answer.status >= 400:
            raise refusal(answer)
        return answer


def _opened(request: urllib.request.Request) -> Any:
    """The answer, whatever it says; an error of HTTP is one too."""
    try:
        return urllib.request.build_opener(_Stay).open(request, timeout=SECONDS_A_CALL)
    except urllib.error.HTTPError as answer:
        return answer


def origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port


def checked_address(address: str) -> None:
    """A token is sent over an encrypted line, or not beyond this machine."""
    try:
        scheme, host, _ = origin(address)
    except ValueError:
        scheme, host = "", None
    if not host or not (scheme == "https" or (scheme == "http" and host in LOCAL)):
        raise ApiFault(f"{address!r} is no address of GitHub's API, such as https://api.github.com")


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
        said = json.loads(answer.body)
        return f": {str(said['message'])[:200]!r}"
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
