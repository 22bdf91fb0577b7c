"""The build hook for hatchling: `[tool.hatch.build.hooks.onnx-ci]`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

if TYPE_CHECKING:
    from onnx_ci.build.package import Packed


WHERE = "[tool.hatch.build.hooks.onnx-ci]"


class OnnxCiBuildHook(BuildHookInterface[BuilderConfig]):
    """Puts shrunk models into a wheel in place of those in the source tree, which stay as they are."""

    PLUGIN_NAME = "onnx-ci"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        from onnx_ci.build.package import Options, packed_for
        from onnx_ci.errors import OnnxCiError
        from onnx_ci.util.files import new_folder
        from onnx_ci.util.text import complaint

        try:
            options = Options(self.config, WHERE, "policy", "models", "sdist")
            if version == "editable" or not (self.target_name == "wheel" or options.sdist):
                return
            files = self._files(build_data)
            self._staging = new_folder()
            packed, report = packed_for(options, Path(self.root), files, self._staging)
        except OnnxCiError as error:
            self.app.abort(f"onnx-ci: {complaint(error.message, error.hint)}")
        else:
            self.app.display_info(report.rstrip())
            self._include(packed, files, build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if hasattr(self, "_staging"):
            shutil.rmtree(self._staging, ignore_errors=True)

    def _files(self, build_data: dict[str, Any]) -> dict[str, Path]:
        """All files of the package, by the path that leads to their place in it: those of the source tree by
        their path there, what is included by force by the path it is included as."""
        config, builder = self.build_config, self.build_config.builder
        with config.set_build_data(build_data):  # with what earlier hooks have made
            files = {file.relative_path: file.path for file in builder.recurse_selected_project_files()}
            for source, target in config.get_force_include().items():
                for file in builder.recurse_forced_files({source: target}):
                    files[str(Path(target, os.path.relpath(file.path, source)))] = file.path
        return {Path(title).as_posix(): Path(path) for title, path in files.items()}

    def _include(self, packed: Packed, files: dict[str, Path], build_data: dict[str, Any]) -> None:
        from onnx_ci.gate.single import copy_file

        forced = build_data["force_include"]
        replaced = {files[title] for title in {*packed.files, *packed.dropped} if title in files}
        for inclusions in (forced, self.build_config.force_include):
            for source in [name for name in inclusions if Path(self.root, name) in replaced]:
                del inclusions[source]
        forced.update({str(file): title for title, file in packed.files.items()})
        for number, (title, file) in enumerate(packed.kept.items()):
            if title not in files:
                # A path can be included by force as one thing only, and this one may be included already.
                copy = self._staging / f"kept-{number}"
                copy_file(file, copy)
                forced[str(copy)] = title
        # Paths that are taken: a build fills them by force, and here with nothing.
        taken = map(self.build_config.get_distribution_path, packed.dropped)
        self.build_config.build_reserved_paths.update(taken)


@hookimpl
def hatch_register_build_hook() -> type[OnnxCiBuildHook]:
    return OnnxCiBuildHook
