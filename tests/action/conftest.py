"""What tests of the action share: one place in which it is installed once."""

from __future__ import annotations

import shutil

import pytest

from tests.support.workflows import Act, alone


@pytest.fixture(scope="session")
def act(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Act:
    if shutil.which("act") is None:
        pytest.skip("act is not installed")
    base = tmp_path_factory.getbasetemp()
    home = (base if worker_id == "master" else base.parent) / "action"
    made = Act(home=home)
    with alone(home / "lock"):
        if not (home / "machine").exists():
            made.prepare()
            made.install()
    return made
