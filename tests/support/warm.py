"""Processes forked from one that has its libraries loaded: loading is most of the time of a short run.

A template is started once. Whoever needs a process sends it arguments, folder, environment and streams; what
is forked there goes on as a new Python would. A test marked `cold` starts every process anew.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

from onnx_ci.sandbox import process

COMMAND, WORKER, TOOLS = "onnx_ci", "onnx_ci.sandbox.worker", "onnx_ci.sandbox.server"
LIBRARIES = {
    WORKER: ["onnxruntime", "onnx_ci.sandbox.inference"],
    TOOLS: ["onnx_ci.sandbox.optimizers", "onnxruntime", "onnx", "onnxslim", "onnxsim", "onnxoptimizer"],
}
_BOOT = "import sys; sys.path[:] = sys.argv[3:]; from tests.support.warm import serve; serve(*sys.argv[1:3])"
# What Python itself, or a library while it is loaded, reads: with another value a process starts anew.
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "OMP_", "COVERAGE")
_ANSWER = 64  # bytes of a message that holds a number


def _text(file: IO[bytes]) -> str:
    return file.read().decode().replace("\r\n", "\n")


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


class Templates:
    """The processes to fork from, in a folder with their sockets; `close` ends them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="warm-"))
        self.on = True
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        home = str(Path(__file__).resolve().parents[2])
        self._path = list(dict.fromkeys([*process.module_path(sys.path, Path.cwd()), home]))
        self._environments = {
            COMMAND: {
                **{k: v for k, v in os.environ.items() if not k.startswith("ONNX_CI_")},
                "OPENBLAS_NUM_THREADS": "1",  # as `run` sets it
            },
            WORKER: process.environment(os.environ),
            TOOLS: process.environment(os.environ),
        }

    def start(self, name: str) -> None:
        if name in self._started:
            return
        self._started[name] = subprocess.Popen(
            [sys.executable, "-s", "-c", _BOOT, str(self.folder), name, *self._path],
            stdin=subprocess.PIPE,
            env=self._environments[name],
            start_new_session=True,
        )

    def fits(self, name: str, environment: Mapping[str, str], path: Sequence[str] | None = None) -> bool:
        """Whether a fork is what a new process would be."""
        alike = _at_start(environment) == _at_start(self._environments[name])
        return self.on and alike and (path is None or set(path) == set(self._path))

    def run(
        self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]
    ) -> tuple[int, str, str]:
        """Run our command; return its exit code and what it printed."""
        self.start(COMMAND)
        with (
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            Path(os.devnull).open() as null,
        ):
            streams = (null.fileno(), out.fileno(), err.fileno())
            code = Forked(self.folder / COMMAND, arguments, cwd, environment, streams).wait()
            out.seek(0)
            err.seek(0)
            return code, _text(out), _text(err)

    def close(self) -> None:
        for template in self._started.values():
            with template:  # closes its standard input
                template.kill()
        shutil.rmtree(self.folder)
        vars(process)["subprocess"] = subprocess


templates: Templates | None = None  # of this session of tests


def install(folder: Path, fits: Any) -> None:
    """Have the children of this process, and of those forked from it, come from templates."""

    def popen(command: list[str], **how: Any) -> Any:
        entry, memory, path = command[4], command[5], command[6:]
        if command[3] != process._BOOT or entry not in LIBRARIES or not fits(entry, how["env"], path):
            return subprocess.Popen(command, **how)
        theirs, stdin = os.pipe()
        stdout, ours = os.pipe()
        streams = (theirs, ours, how["stderr"].fileno())
        forked = Forked(folder / entry, [memory], how["cwd"], how["env"], streams)
        os.close(theirs)
        os.close(ours)
        forked.stdin, forked.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        return forked

    vars(process)["subprocess"] = SimpleNamespace(Popen=popen, PIPE=subprocess.PIPE)


class Forked:
    """What `subprocess.Popen` would be for a process that a template forked."""

    stdin: IO[bytes]
    stdout: IO[bytes]

    def __init__(
        self,
        template: Path,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
    ) -> None:
        self._keeper = _connected(template)
        text = json.dumps([list(arguments), str(cwd), dict(environment)]).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
        self._keeper.sendmsg([text], rights)
        self.pid = int(self._keeper.recv(_ANSWER))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._keeper], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._keeper.recv(_ANSWER) or -signal.SIGKILL)
            self._keeper.close()
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _connected(template: Path) -> socket.socket:
    """A template that was just started listens when its libraries are loaded."""
    for _ in range(1200):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(str(template))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            select.select([], [], [], 0.1)
        else:
            return connection
    raise TimeoutError(f"{template} does not answer")


def serve(folder: str, name: str) -> None:
    """The template: it ends when its standard input does."""
    for library in LIBRARIES.get(name) or _modules_of_a_command():
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(library)
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)  # numpy's threads are made for this
    if name == COMMAND:
        settings = _at_start(process.environment(os.environ))
        path = set(sys.path)
        install(Path(folder), lambda _, env, asked: _at_start(env) == settings and set(asked) == path)
    gc.collect()
    gc.freeze()  # or every fork would get a copy of each page that holds a counter
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        place = Path(folder, name)
        listener.bind(f"{place}.new")
        listener.listen(64)
        Path(f"{place}.new").rename(place)
        while 0 not in select.select([listener.fileno(), 0], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _keep(connection, name)
            connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _modules_of_a_command() -> Iterator[str]:
    """All of ours but what runs in other processes, or in other programs."""
    import onnx_ci

    apart = (
        *("sandbox.worker", "sandbox.inference", "sandbox.optimizers", "sandbox.quantizers"),
        *("build.", "cmake", "inputs.recorder", "__main__", "action."),
    )
    for module in pkgutil.walk_packages(onnx_ci.__path__, "onnx_ci."):
        if not module.name.removeprefix("onnx_ci.").startswith(apart):
            yield module.name


def _keep(connection: socket.socket, name: str) -> NoReturn:
    """Fork once more, tell who it is and how it ends; end it where nobody listens any more."""
    text, rights, *_ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(3 * 4))
    streams = array.array("i", rights[0][2])
    pid = os.fork()
    if pid == 0:
        os.setsid()
        connection.sendall(str(os.getpid()).encode())
        connection.close()
        _become(name, streams, *json.loads(text))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, connection.fileno()], [], [])[0]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(str(code).encode())
    os._exit(0)


def _become(
    name: str, streams: Sequence[int], arguments: list[str], cwd: str, environment: dict[str, str]
) -> NoReturn:
    """Go on as a Python that was started with this, and end as one."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    code: object = 1
    try:
        if name == COMMAND:
            sys.path.insert(0, cwd)
            sys.argv[:] = ["onnx-ci", *arguments]
            importlib.import_module("onnx_ci.cli.main").run()
        importlib.import_module(name).main(int(arguments[0]))
    except SystemExit as done:
        code = done.code
    except BaseException:  # noqa: BLE001 - a fork must not go on with what its parent does
        traceback.print_exc()
    finally:
        import atexit

        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)
