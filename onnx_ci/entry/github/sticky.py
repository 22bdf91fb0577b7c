"""One comment for each key in a pull request: found by its mark and its author, and changed in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx_ci.entry.github.api import Api, Comment
from onnx_ci.entry.github.inputs import KEY, KEY_WORDS
from onnx_ci.errors import ApiFault, UsageError

LONGEST = 65_536  # GitHub counts characters as Python does: what needs 4 bytes is one
DEFAULT_AUTHOR = "github-actions[bot]"  # whom GITHUB_TOKEN writes as
SUPERSEDED = "A later comment in this pull request has the report."


def mark(key: str) -> str:
    """The first line of a comment. A key can't hold what would end it."""
    if not KEY.fullmatch(key):
        raise UsageError(f"{key[:60]!r} can't be the key of a comment", hint=f"`comment` is {KEY_WORDS}")
    return f"<!-- onnx-ci: {key} -->"


@dataclass(frozen=True, kw_only=True)
class Sticky:
    """`say` gets one line for each thing that was done."""

    api: Api
    key: str
    author: str
    say: Callable[[str], None]

    def put(self, pull: int, text: str) -> None:
        body = f"{mark(self.key)}\n{text}"
        if len(body) > LONGEST:
            raise ApiFault(f"the comment has {len(body):,} characters, GitHub takes {LONGEST:,}", status=422)
        try:
            self._put(pull, body)
        except ApiFault as fault:
            if not fault.passing or fault.limited:
                raise
            # A comment may have been made although the answer was an error: look before making another.
            self._put(pull, body)

    def _put(self, pull: int, body: str) -> None:
        mine = self.mine(pull)
        if not mine:
            number = self.api.create_comment(pull, body).number
            self.say(f"made comment {number} in pull request {pull}")
            return
        *older, newest = mine
        self._change(newest, body, f"comment {newest.number} in pull request {pull}")
        for comment in older:
            text = f"{mark(self.key)}\n{SUPERSEDED}\n"
            self._change(comment, text, f"comment {comment.number}, which has the same key and is older,")

    def _change(self, comment: Comment, body: str, name: str) -> None:
        if comment.body.replace("\r\n", "\n").rstrip() == body.rstrip():
            self.say(f"{name} already says this")
            return
        self.api.change_comment(comment.number, body)
        self.say(f"{name} was changed")

    def mine(self, pull: int) -> list[Comment]:
        """Oldest first. Anyone can write the mark into a comment: it counts only where we are the author."""
        start = mark(self.key)
        found = [c for c in self.api.comments(pull) if c.author == self.author and _first(c.body) == start]
        return sorted(found, key=lambda comment: comment.number)


def _first(body: str) -> str:
    return body.split("\n", 1)[0].rstrip()
