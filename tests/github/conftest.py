"""One emulator for the tests of a module; what one test records and breaks is gone for the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import github as emulated


@pytest.fixture(scope="module")
def _running() -> Iterator[emulated.GitHub]:
    with emulated.github() as found:
        yield found


@pytest.fixture
def github(_running: emulated.GitHub) -> emulated.GitHub:
    _running.calls.clear()
    _running.fault = emulated.as_it_is
    return _running
