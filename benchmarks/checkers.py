"""What is compared by the damage bench: our verdict on a pair of models, and that of each peer."""

from __future__ import annotations

import json
import selectors
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import peers
from environments import environment

from onnx_ci.gate.single import COMPARED, second_model
from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import InputSpec, Rule
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.prove import Prover

PATIENCE = 120.0  # seconds a peer may take for one pair
OURS = "onnx-ci"
PEERS = ("onnxsim", "onnxslim", "polygraphy")
CHECKERS = (OURS, *PEERS)
WORDS = {"passed": "pass", "failed": "fail", "not_run": "unverified"}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`word`: pass, fail or unverified."""

    word: str
    reason: str = ""


class Ours(AbstractContextManager["Ours"]):
    """`onnx-ci compare`, without the timing; the original is looked at once for all that follow."""

    def __init__(self, original: Path) -> None:
        self._stack = ExitStack()
        self._before = self._stack.enter_context(open_model(original))
        rule = Rule(pattern=original.name, inputs=InputSpec(count=COMPARED))
        runner = self._stack.enter_context(Runner())
        scratch = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="onnx-ci-bench-"))
        self._prover = Prover(rule, self._before, runner, Path(scratch), home=original.parent)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def verdict(self, changed: Path) -> Verdict:
        with open_model(changed) as after:
            found = self._prover.prove(second_model(self._before, after)).verification
        return Verdict(word=WORDS[found.status], reason=found.reason)


class Peer(AbstractContextManager["Peer"]):
    """One of the peers, in a process that stays for all pairs of a model and is replaced when it dies."""

    def __init__(self, name: str, original: Path, shapes: Mapping[str, Sequence[int]]) -> None:
        self._asked = {"checker": name, "original": str(original), "shapes": shapes}
        python = environment("peers", peers.REQUIREMENTS)
        self._command = [str(python), str(Path(__file__).with_name("peer_checks.py"))]
        self._process: subprocess.Popen[str] | None = None

    def __exit__(self, *_: object) -> None:
        self._stop()

    def verdict(self, changed: Path) -> Verdict:
        process = self._started()
        line = self._exchange(process, json.dumps({**self._asked, "changed": str(changed)}))
        if not line:
            self._stop()
            return Verdict(word="unverified", reason="crashed, or took too long")
        found = json.loads(line)
        return Verdict(word=found["verdict"], reason=found["reason"])

    def _exchange(self, process: subprocess.Popen[str], question: str) -> str:
        if process.stdin is None or process.stdout is None:
            return ""
        process.stdin.write(question + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            return process.stdout.readline() if selector.select(PATIENCE) else ""

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=tempfile.gettempdir(),
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def checker(name: str, original: Path, shapes: Mapping[str, Sequence[int]]) -> Ours | Peer:
    return Ours(original) if name == OURS else Peer(name, original, shapes)


Judge = Callable[[Path], Verdict]
