"""The hook for setuptools: `[tool.onnx-ci]` in pyproject.toml, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.build.package import Options, Packed, models_of, needed_by, packed_for
from onnx_ci.errors import OnnxCiError, UsageError
from onnx_ci.gate.single import copy_file
from onnx_ci.model.locations import DATA_ENDINGS
from onnx_ci.model.replace import is_own, other_users
from onnx_ci.util.files import scratch_folder
from onnx_ci.util.text import complaint, one_line

if TYPE_CHECKING:
    from setuptools import Distribution


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
        for name in tables:
            if re.fullmatch(r"onnx[-_.]?ci", name, re.IGNORECASE):
                warnings.warn(f"[tool.{name}] is not read by onnx-ci; did you mean {WHERE}?", stacklevel=1)
        return
    for name, mixin in (("build_py", ShrinkModels), ("sdist", TakePolicy)):
        command: type[Any] = dist.get_command_class(name)
        if not issubclass(command, mixin):
            dist.cmdclass[name] = type(name, (mixin, command), {"onnx_ci_table": table})


class ShrinkModels:
    """Added to `build_py`: when all is copied, models are shrunk and put over the copies. Not before, since
    a project's own `build_py` may make models on the way."""

    def run(self: Any) -> None:
        if getattr(self, "editable_mode", False) or not self.packages:
            super().run()  # type: ignore[misc]
            return
        with scratch_folder() as staging, _errors_of_setuptools():
            options, folder = _options(self), BuildFolder(Path(self.build_lib))
            super().run()  # type: ignore[misc]
            files = dict(_data_files(self))
            with contextlib.ExitStack() as failed:
                failed.callback(folder.remove, models_of(files))
                files.update(folder.made(files))
                packed, report = packed_for(options, Path.cwd(), files, Path(staging))
                folder.put(packed)
                failed.pop_all()
            print(report.rstrip())  # noqa: T201 - beside what setuptools prints


class TakePolicy:
    """Added to `sdist`: a wheel that is built from it needs policies and samples, which no manifest names."""

    def make_release_tree(self: Any, base_dir: str, files: list[str]) -> None:
        with _errors_of_setuptools():
            needed = needed_by(_options(self), Path.cwd(), [Path.cwd() / name for name in files])
        listed = {Path(name) for name in files}
        more = [os.fspath(path) for path in needed if path not in listed]
        super().make_release_tree(base_dir, [*files, *more])  # type: ignore[misc]


def _data_files(command: Any) -> Iterator[tuple[str, Path]]:
    """Every data file that is about to be copied, by its path in the build folder."""
    for _, source, target, names in command.data_files:
        for name in names:
            place = Path(os.path.relpath(Path(target, name), command.build_lib))
            yield place.as_posix(), Path.cwd() / source / name


def _options(command: Any) -> Options:
    return Options(command.onnx_ci_table, WHERE, "policy", "models")


@contextlib.contextmanager
def _errors_of_setuptools() -> Iterator[None]:
    """An error of ours becomes one of setuptools', which it shows without a traceback."""
    from setuptools.errors import BaseError

    try:
        yield
    except OnnxCiError as error:
        raise BaseError(f"onnx-ci: {complaint(error.message, error.hint)}") from None


LIKELY = (".onnx", ".npy", *DATA_ENDINGS)


class BuildFolder:
    """Looked at before a build copies anything into it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.before = self._files()

    def _files(self) -> dict[str, tuple[int, int, int]]:
        """Models and what may be their data, with what changes when a file is written."""
        likely = [path for path in sorted(self.path.rglob("*")) if path.name.lower().endswith(LIKELY)]
        states = {path.relative_to(self.path).as_posix(): path.stat() for path in likely if path.is_file()}
        return {title: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for title, stat in states.items()}

    def made(self, known: Collection[str]) -> dict[str, Path]:
        """Models that a command wrote here, without sources; refuses those of an earlier build."""
        unknown = {title: state for title, state in self._files().items() if title not in known}
        self.left = [title for title, state in unknown.items() if self.before.get(title) == state]
        models = [title for title in unknown if title.lower().endswith(".onnx")]
        if stale := [title for title in models if title in self.left]:
            raise UsageError(
                f"{one_line(str(self.path / stale[0]))} was left by an earlier build:"
                " no file of the package gives it",
                hint=f"remove the folder {one_line(str(self.path))}, then build again",
            )
        return {title: self.path / title for title in models}

    def put(self, packed: Packed) -> None:
        """All models as they ship, and no data that an earlier build wrote for them and that none needs."""
        for title in packed.dropped:
            (self.path / title).unlink(missing_ok=True)
        # Those that are kept too: setuptools leaves what it finds here and takes for newer.
        files = {**packed.kept, **packed.files}
        for title, file in files.items():
            (self.path / title).parent.mkdir(parents=True, exist_ok=True)
            copy_file(file, self.path / title)
        models = [self.path / title for title in files if title.lower().endswith(".onnx")]
        for data in (self.path / title for title in self.left):
            owned = any(model.parent == data.parent and is_own(data.name, model) for model in models)
            if owned and not other_users(data, self.path, self.path):
                data.unlink(missing_ok=True)

    def remove(self, titles: Collection[str]) -> None:
        """After a failure: nothing that was not proven stays where it would be packed."""
        for title in titles:
            (self.path / title).unlink(missing_ok=True)
