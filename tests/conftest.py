"""A skip names a tool that is missing; where everything has to be there, it is a failure."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support import warm

REQUIRE_ALL = os.environ.get("ONNX_CI_REQUIRE_ALL") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay until the end: the collector of garbage need not look through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`-m "not real"` is the fast subset: of sampled tests it has some."""
    seen: Counter[Path] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is not None:
            every = sampled.args[0]
            if not every or seen[item.path] % every:
                item.add_marker("real")
            seen[item.path] += 1


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_cache(caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test finds what another has proven, nor what the user has."""
    folder = next(caches)
    folder.mkdir()
    monkeypatch.setenv("ONNX_CI_CACHE", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.delenv("ONNX_CI_CACHE_KEY", raising=False)
    return folder


@pytest.fixture(scope="session")
def templates() -> Iterator[warm.Templates | None]:
    """Processes with libraries loaded, to fork from; for all tests of this session."""
    if not hasattr(os, "pidfd_open"):  # not on Linux
        yield None
        return
    warm.templates = made = warm.Templates()
    for name in warm.LIBRARIES:
        made.start(name)
    warm.install(made.folder, made.fits)
    yield made
    warm.templates = None
    made.close()


@pytest.fixture(autouse=True)
def cold_or_warm(request: pytest.FixtureRequest, templates: warm.Templates | None) -> None:
    if templates is not None:
        templates.on = request.node.get_closest_marker("cold") is None


@pytest.fixture
def idle_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs a method or a verification in this process fails."""
    from onnx_ci.gate import attempts

    def refuse(*_: object) -> None:
        raise AssertionError("work was done that an earlier run had done")

    monkeypatch.setattr(attempts, "try_all", refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, but ONNX_CI_REQUIRE_ALL=1 is set: {report.longrepr}"
    return report
