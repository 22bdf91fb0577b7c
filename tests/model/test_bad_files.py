"""A file that is no usable model gets one clear line, whatever is wrong with it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from onnx_ci.errors import ModelError
from onnx_ci.model.load import open_model
from tests.traps import FILE_TRAPS, HOSTILE, FileTrap


@pytest.mark.parametrize("trap", FILE_TRAPS, ids=lambda trap: trap.name)
def test_refused_with_one_clear_line(trap: FileTrap, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    path = trap.build(folder)
    with pytest.raises(ModelError) as caught:
        open_model(path, root=path.parent)
    message = caught.value.message
    assert "\n" not in message
    assert path.name in message
    for word in trap.words:
        assert word in message.lower(), message


@pytest.mark.parametrize("trap", HOSTILE, ids=lambda trap: trap.name)
def test_hostile_models_open_or_are_refused(trap: FileTrap, tmp_path: Path) -> None:
    """No crash, no hang, no memory without limit: opening ends, one way or the other."""
    path = trap.build(tmp_path)
    with contextlib.suppress(ModelError):
        open_model(path).close()
