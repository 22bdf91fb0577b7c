"""The hook for setuptools: `[tool.onnx-ci]` in pyproject.toml, and nothing else."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setuptools import Distribution

    from onnx_ci.entry.packing import Options
    from onnx_ci.shipping import Packed

WHERE = "[tool.onnx-ci]"


def finalize_distribution_options(dist: Distribution) -> None:
    """Called for every build where this package is installed; does nothing without the table."""
    file = Path("pyproject.toml")
    if not file.is_file() or b"onnx-ci" not in file.read_bytes():
        return
    from setuptools.config.pyprojecttoml import load_file

    table = load_file(file).get("tool", {}).get("onnx-ci")
    if table is None:
        return
    for name, added in (("build_py", ShrinkModels), ("sdist", TakePolicy)):
        known: type[Any] = dist.get_command_class(name)
        if not issubclass(known, added):
            dist.cmdclass[name] = type(name, (added, known), {"onnx_ci_table": table})


class ShrinkModels:
    """Added to `build_py`: models are shrunk before anything is copied, and put over the copies after."""

    def run(self: Any) -> None:
        if self.editable_mode or not self.packages:
            super().run()  # type: ignore[misc]
            return
        from onnx_ci.entry.packing import packed_for

        found = dict(_data_files(self))
        with tempfile.TemporaryDirectory(prefix="onnx-ci-") as staging, _errors_of_setuptools():
            packed, report = packed_for(_options(self), Path.cwd(), found, Path(staging))
            print(report.rstrip())  # noqa: T201 - beside what setuptools prints
            super().run()  # type: ignore[misc]
            _put(packed, Path(self.build_lib))


class TakePolicy:
    """Added to `sdist`: a wheel that is built from it needs policies and samples, which no manifest names."""

    def make_release_tree(self: Any, base_dir: str, files: list[str]) -> None:
        from onnx_ci.entry.packing import needed_by

        with _errors_of_setuptools():
            needed = needed_by(_options(self), Path.cwd(), [Path.cwd() / name for name in files])
        known = {Path(name) for name in files}
        more = [os.fspath(path) for path in needed if path not in known]
        super().make_release_tree(base_dir, [*files, *more])  # type: ignore[misc]


def _data_files(command: Any) -> Iterator[tuple[str, Path]]:
    """Every data file that is about to be copied, by its path in the build folder."""
    for _, source, target, names in command.data_files:
        for name in names:
            place = Path(os.path.relpath(Path(target, name), command.build_lib))
            yield place.as_posix(), Path.cwd() / source / name


def _options(command: Any) -> Options:
    from onnx_ci.entry.packing import Options

    return Options(command.onnx_ci_table, WHERE, "policy", "models")


@contextlib.contextmanager
def _errors_of_setuptools() -> Iterator[None]:
    """An error of ours becomes one of setuptools', which it shows without a traceback."""
    from setuptools.errors import BaseError

    from onnx_ci.errors import OnnxCiError
    from onnx_ci.report.style import complaint

    try:
        yield
    except OnnxCiError as error:
        raise BaseError(f"onnx-ci: {complaint(error.message, error.hint)}") from None


def _put(packed: Packed, build: Path) -> None:
    from onnx_ci.single import copy_file

    for title in packed.dropped:
        (build / title).unlink(missing_ok=True)
    # Those that are kept too: setuptools leaves what it finds in the build folder and takes for newer.
    for title, file in {**packed.kept, **packed.files}.items():
        (build / title).parent.mkdir(parents=True, exist_ok=True)
        copy_file(file, build / title)
