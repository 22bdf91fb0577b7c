"""The folder that setuptools packs as it is: what an earlier build has left in it, and what this one made."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.model.endings import DATA_ENDINGS
from onnx_ci.model.ownership import is_own, other_users
from onnx_ci.report.style import one_line
from onnx_ci.shipping import Packed
from onnx_ci.single import copy_file

LIKELY = (".onnx", ".npy", *DATA_ENDINGS)


class BuildFolder:
    """Looked at before a build copies anything into it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.before = self._files()

    def _files(self) -> dict[str, tuple[int, int, int]]:
        """Models and what may be their data, with what changes when a file is written."""
        likely = [path for path in sorted(self.path.rglob("*")) if path.name.lower().endswith(LIKELY)]
        found = {path.relative_to(self.path).as_posix(): path.stat() for path in likely if path.is_file()}
        return {title: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for title, stat in found.items()}

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
        for title in self.left:
            self._remove_orphan(self.path / title, models)

    def _remove_orphan(self, data: Path, models: Collection[Path]) -> None:
        owned = any(model.parent == data.parent and is_own(data.name, model) for model in models)
        if owned and not other_users(data, self.path, self.path):
            data.unlink(missing_ok=True)

    def remove(self, titles: Collection[str]) -> None:
        """After a failure: nothing that was not proven stays where it would be packed."""
        for title in titles:
            (self.path / title).unlink(missing_ok=True)
