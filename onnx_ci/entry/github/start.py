"""What `action.yml` starts by its path, before anything is installed. Old Pythons have to read it."""

import os
import sys

LEAST = (3, 10)


def start() -> int:
    if sys.version_info < LEAST:  # whoever has an older one is to be told, not shown a traceback
        found = ".".join(map(str, sys.version_info[:3]))
        message = "this runner's python3 is Python %s, and onnx-ci needs 3.10 or later;" % found  # noqa: UP031
        sys.stdout.write(
            "::error title=onnx-ci::" + message + " set the input python-version, such as '3.12'\n"
        )
        return 3
    # First: the runner's python3 may have an onnx-ci of its own, and the action is what these files say.
    home = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as old as everything here
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(home))))  # noqa: PTH120
    from onnx_ci.entry.github.run import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(start())
