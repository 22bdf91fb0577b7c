"""The few calls to GitHub's API that are made, and nothing of what they are for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from onnx_ci.entry.github.transport import Answer, Transport, origin
from onnx_ci.errors import ApiFault, UsageError

PAGE = 100
MOST_PAGES = 30  # GitHub allows 2,500 comments in a pull request
NEXT = re.compile(r'<([^<>]*)>\s*;\s*rel="next"')


@dataclass(frozen=True, kw_only=True)
class Comment:
    number: int
    body: str
    author: str


@dataclass(frozen=True, kw_only=True)
class Pull:
    """`repository` is the number of the one that the branch is in; 0 where that is gone."""

    number: int
    sha: str
    repository: int
    is_open: bool


@dataclass(frozen=True, kw_only=True)
class Api:
    """`repository` is OWNER/NAME, of this workflow: the only one that is ever asked about."""

    transport: Transport
    repository: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9-]+/(?!\.{1,2}$)[A-Za-z0-9._-]+", self.repository):
            raise UsageError(f"{self.repository!r} is no repository", hint="GITHUB_REPOSITORY is OWNER/NAME")

    def comments(self, pull: int) -> list[Comment]:
        return [_comment(found) for found in self._pages(f"/issues/{pull:d}/comments", {})]

    def create_comment(self, pull: int, body: str) -> Comment:
        answer = self._call("POST", f"/issues/{pull:d}/comments", {"body": body})
        return _comment(answer.json())

    def change_comment(self, number: int, body: str) -> None:
        self._call("PATCH", f"/issues/comments/{number:d}", {"body": body})

    def pulls_of_branch(self, owner: str, branch: str) -> list[Pull]:
        """Open ones. The only way that finds those of forks: their commits are not in this repository."""
        query = {"state": "open", "head": f"{owner}:{branch}"}
        return [_pull(found) for found in self._pages("/pulls", query)]

    def pulls_of_commit(self, sha: str) -> list[Pull]:
        if not re.fullmatch(r"[0-9a-f]{40,64}", sha):
            raise UsageError(f"{sha!r} is no commit")
        try:
            return [_pull(found) for found in self._pages(f"/commits/{sha}/pulls", {})]
        except ApiFault as fault:
            if fault.status in (404, 422):  # no such commit here: it is a fork's
                return []
            raise

    def login(self, graphql: str) -> str:
        """Who the token is. GraphQL tells every token, REST only those of people; "" where neither does."""
        for ask in (self._viewer, self._user):
            try:
                return ask(graphql)
            except ApiFault as fault:
                if fault.status not in (401, 403, 404):
                    raise
        return ""

    def _viewer(self, graphql: str) -> str:
        if origin(graphql) != origin(self.transport.base):
            raise ApiFault("the address of GraphQL is on another host", status=404)
        answer = self.transport.call("POST", graphql, {"query": "{viewer{login}}"}).json()
        try:
            return str(answer["data"]["viewer"]["login"])
        except (KeyError, TypeError):
            raise ApiFault("GraphQL does not tell who the token is", status=404) from None

    def _user(self, _: str) -> str:
        return _text(self.transport.call("GET", "/user").json(), "login")

    def _call(self, method: str, path: str, body: dict[str, object] | None = None) -> Answer:
        return self.transport.call(method, f"/repos/{self.repository}{path}", body)

    def _pages(self, path: str, query: dict[str, str]) -> list[Any]:
        """Everything, page by page; the address of the next page is GitHub's, and has to be on its host."""
        found: list[Any] = []
        asked = urlencode({**query, "per_page": PAGE}, errors="replace")  # no name holds half a character
        address = f"/repos/{self.repository}{path}?{asked}"
        for _ in range(MOST_PAGES):
            answer = self.transport.call("GET", address)
            page = answer.json()
            if not isinstance(page, list):
                raise ApiFault("GitHub's answer is not the list that was asked for", status=answer.status)
            found.extend(page)
            following = NEXT.search(answer.headers.get("link", ""))
            if not following:
                return found
            address = following[1]
        raise ApiFault(f"GitHub's list has more than {MOST_PAGES} pages of {PAGE}")


def _comment(found: Any) -> Comment:
    author = found.get("user") if isinstance(found, dict) else None  # None: the account is gone
    return Comment(
        number=_number(found, "id"),
        body=found.get("body") or "",
        author=_text(author, "login") if author else "",
    )


def _pull(found: Any) -> Pull:
    head = found.get("head") if isinstance(found, dict) else None
    repository = head.get("repo") if isinstance(head, dict) else None
    return Pull(
        number=_number(found, "number"),
        sha=_text(head, "sha"),
        repository=_number(repository, "id") if repository else 0,
        is_open=_text(found, "state") == "open",
    )


def _number(found: Any, name: str) -> int:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ApiFault(f"GitHub's answer has no number {name!r}")
    return value


def _text(found: Any, name: str) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, str):
        raise ApiFault(f"GitHub's answer has no text {name!r}")
    return value
