"""What is fuzzed: functions of bytes that may refuse in the one way that is meant for it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from onnx_ci.errors import ModelError, PolicyError
from onnx_ci.methods.catalogue import Catalogue
from onnx_ci.model.load import open_model
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.save import write_model
from onnx_ci.policy.load import check_policy

_FAST = Path("/dev/shm")  # noqa: S108 - memory: a disk would be most of the time
_HOME = Path(tempfile.mkdtemp(prefix="onnx-ci-fuzz-", dir=_FAST if _FAST.is_dir() else None))

atexit.register(shutil.rmtree, _HOME, ignore_errors=True)


def container(data: bytes) -> None:
    """What opens is written and opened again as the same model."""
    source, target = _HOME / "in.onnx", _HOME / "out.onnx"
    source.write_bytes(data)
    try:
        model = open_model(source)
    except ModelError:
        return
    with model:
        digest = model_digest(model)
        try:
            write_model(model, target)
        except ModelError:
            return
    with open_model(target) as written:
        assert model_digest(written) == digest


def policy(data: bytes) -> None:
    path = _HOME / ".onnx-ci.yaml"
    path.write_bytes(data)
    try:
        check_policy(path, methods=Catalogue()).policy()
    except PolicyError:
        return


TARGETS: dict[str, Callable[[bytes], None]] = {"container": container, "policy": policy}
