"""What `action.yml` starts by its path, before anything is installed. Old Pythons have to read it."""

from __future__ import annotations

import os
import sys

LEAST = (3, 10)
TOKENS = ("INPUT_TOKEN", "ONNX_CI_JOB_TOKEN")
PASSED_ON = "ONNX_CI_TOKENS_FROM"  # the number of a pipe


def start() -> int:
    if sys.version_info < LEAST:  # whoever has an older one is to be told, not shown a traceback
        version = ".".join(map(str, sys.version_info[:3]))
        message = "this runner's python3 is Python %s, and onnx-ci needs 3.10 or later;" % version  # noqa: UP031
        sys.stdout.write(
            "::error title=onnx-ci::" + message + " set the input python-version, such as '3.12'\n"
        )
        return 3
    # First: the runner's python3 may have an onnx-ci of its own, and the action is what these files say.
    home = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as old as everything here
    sys.path.insert(0, os.path.dirname(os.path.dirname(home)))  # noqa: PTH120
    hide_tokens()
    from onnx_ci.action.run import main

    return main(sys.argv[1:])


def hide_tokens() -> None:
    """What a process was started with can be read in /proc while it lives, by whatever a repository makes
    us run. So we start once more without the tokens, and get them through a pipe."""
    if os.name == "nt":
        return
    if PASSED_ON in os.environ:
        with os.fdopen(int(os.environ.pop(PASSED_ON))) as pipe:
            os.environ.update(zip(TOKENS, pipe.read().split("\0")))  # noqa: B905 - as old as everything here
        from onnx_ci.sandbox.process import keep_private

        keep_private()
    elif any(os.environ.get(name) for name in TOKENS):
        ours, theirs = os.pipe()
        os.write(theirs, "\0".join(os.environ.pop(name, "") for name in TOKENS).encode())
        os.close(theirs)
        os.set_inheritable(ours, True)
        os.environ[PASSED_ON] = str(ours)
        os.execv(sys.executable, [sys.executable, "-I"] + sys.argv)  # noqa: RUF005, S606


if __name__ == "__main__":
    sys.exit(start())
