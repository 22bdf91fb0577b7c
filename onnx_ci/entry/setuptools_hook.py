"""The hook for setuptools: `[tool.onnx-ci]` in pyproject.toml, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setuptools import Distribution

    from onnx_ci.entry.packing import Options

WHERE = "[tool.onnx-ci]"


def finalize_distribution_options(dist: Distribution) -> None:
    """Called for every build where this package is installed; does nothing without the table."""
    file = Path("pyproject.toml")
    if not file.is_file() or not re.search(rb"onnx[-_.]?ci", file.read_bytes(), re.IGNORECASE):
        return
    from setuptools.config.pyprojecttoml import load_file

    tables = load_file(file).get("tool", {})
    table = tables.get("onnx-ci")
    if table is None:
        _warn_of_typo(tables)
        return
    for name, added in (("build_py", ShrinkModels), ("sdist", TakePolicy)):
        known: type[Any] = dist.get_command_class(name)
        if not issubclass(known, added):
            dist.cmdclass[name] = type(name, (added, known), {"onnx_ci_table": table})


def _warn_of_typo(tables: dict[str, Any]) -> None:
    for name in tables:
        if re.fullmatch(r"onnx[-_.]?ci", name, re.IGNORECASE):
            warnings.warn(f"[tool.{name}] is not read by onnx-ci; did you mean {WHERE}?", stacklevel=2)


class ShrinkModels:
    """Added to `build_py`: when all is copied, models are shrunk and put over the copies. Not before, since
    a project's own `build_py` may make models on the way."""

    def run(self: Any) -> None:
        if getattr(self, "editable_mode", False) or not self.packages:
            super().run()  # type: ignore[misc]
            return
        from onnx_ci.entry.build_folder import BuildFolder
        from onnx_ci.entry.packing import models_of, packed_for
        from onnx_ci.scratch import scratch_folder

        with scratch_folder() as staging, _errors_of_setuptools():
            options, folder = _options(self), BuildFolder(Path(self.build_lib))
            super().run()  # type: ignore[misc]
            found = dict(_data_files(self))
            with contextlib.ExitStack() as failed:
                failed.callback(folder.remove, models_of(found))
                found.update(folder.made(found))
                packed, report = packed_for(options, Path.cwd(), found, Path(staging))
                folder.put(packed)
                failed.pop_all()
            print(report.rstrip())  # noqa: T201 - beside what setuptools prints


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
