"""A GitHub to talk to: the stateful emulator, and before it a server that records and can be told to fail."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.node import node, node_module
from tests.support.workflows import REPOSITORY

Reply = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


def as_it_is(_: Call) -> Reply | None:
    return None


@dataclass
class GitHub:
    """`fault` may answer a call in the emulator's place; None passes it on."""

    url: str
    behind: str
    tokens: dict[str, str]
    calls: list[Call] = field(default_factory=list)
    known_as: dict[str, str] = field(default_factory=dict)  # tokens that stand for one of these
    fault: Callable[[Call], Reply | None] = as_it_is

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "token-of-owner") -> Any:
        """Past the recording server: how tests arrange and look at things."""
        request = urllib.request.Request(
            self.behind + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def pull(self, branch: str, *, fork: bool = False) -> dict[str, Any]:
        """A new pull request, from a branch of this repository or from one of the stranger's fork."""
        body = {"title": branch, "head": f"stranger:{branch}" if fork else branch, "base": "main"}
        token = "token-of-stranger" if fork else "token-of-owner"
        made: dict[str, Any] = self.ask("POST", f"/repos/{REPOSITORY}/pulls", body, token=token)
        return made

    def comments(self, pull: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for page in range(1, 40):
            more = self.ask("GET", f"/repos/{REPOSITORY}/issues/{pull}/comments?per_page=100&page={page}")
            found += more
            if len(more) < 100:
                break
        return found

    def comment(self, pull: int, body: str, token: str) -> int:
        path = f"/repos/{REPOSITORY}/issues/{pull}/comments"
        return int(self.ask("POST", path, {"body": body}, token=token)["id"])

    def made(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method and "graphql" not in call.path]

    def login(self, call: Call) -> Reply | None:
        """Who a token is, which the emulator tells only for people, as GitHub tells it."""
        bot = call.headers.get("authorization", "").removeprefix("Bearer ") in self.tokens.values()
        if call.path == "/user" and bot:
            return 403, {}, b'{"message": "Resource not accessible by integration"}'
        if call.path == "/graphql" and bot:
            return 200, {}, b'{"data": {"viewer": {"login": "github-actions[bot]"}}}'
        return None


@contextlib.contextmanager
def github() -> Iterator[GitHub]:
    port = _free_port()
    script = Path(__file__).with_name("emulator.mjs")
    command = [node(), str(script), str(port), str(node_module("emulate"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as emulator:
        try:
            assert emulator.stdout
            tokens = json.loads(emulator.stdout.readline())
            with _front(f"http://127.0.0.1:{port}", tokens) as found:
                found.ask("POST", f"/repos/{REPOSITORY}/forks", {}, token="token-of-stranger")
                yield found
        finally:
            emulator.kill()


@contextlib.contextmanager
def _front(behind: str, tokens: dict[str, str]) -> Iterator[GitHub]:
    found = GitHub(url="", behind=behind, tokens=tokens)

    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            token = headers.get("authorization", "").removeprefix("Bearer ")
            headers["authorization"] = f"Bearer {found.known_as.get(token, token)}"
            call = Call(self.command, self.path, headers, json.loads(raw) if raw else None)
            found.calls.append(call)
            status, more, body = found.fault(call) or found.login(call) or passed_on(behind, call, raw)
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            if "content-length" not in more:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # the client may have had enough
                self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - what http.server calls them

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Front) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield found
        finally:
            server.shutdown()


def passed_on(behind: str, call: Call, raw: bytes) -> Reply:
    kept = {"authorization", "content-type", "host", "accept"}
    headers = {name: value for name, value in call.headers.items() if name in kept}
    request = urllib.request.Request(
        behind + call.path, method=call.method, data=raw or None, headers=headers
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, _told(answer.headers), answer.read()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, _told(answer.headers), answer.read()


def _told(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in ("link", "content-type")}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
