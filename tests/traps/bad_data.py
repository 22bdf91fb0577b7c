"""Files: models whose external data is missing, damaged, or where it must not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnx import ModelProto

from tests.traps.base import FILE, FileTrap, encode, model, tensor, weight
from tests.traps.good_files import DATA, external_in_branches, move_out

TENSOR = "encoder.weight"
POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345678\n"
)


def with_data(**entries: object) -> ModelProto:
    """A model whose one weight is the first 16384 bytes of a file, unless told otherwise."""
    made = model("g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }")
    item = tensor(TENSOR, weight(64, 64, seed=1))
    made.graph.node[0].input[1] = TENSOR
    known = {"location": DATA, "offset": 0, "length": 16384, **entries}
    move_out(item, **known)  # type: ignore[arg-type]
    made.graph.initializer.append(item)
    return made


def external(
    name: str,
    words: tuple[str, ...],
    why: str,
    prepare: Callable[[Path], object] | None = None,
    **entries: object,
) -> FileTrap:
    """The model is in the folder `repo`, its data beside it unless `prepare` puts it elsewhere."""

    def build(folder: Path) -> Path:
        repo = folder / "repo"
        repo.mkdir()
        (prepare or _whole)(repo)
        told = {key: value(repo) if callable(value) else value for key, value in entries.items()}
        (repo / FILE).write_bytes(encode(with_data(**told)))
        return repo / FILE

    return FileTrap(name=name, build=build, words=words, why=why)


def _whole(repo: Path) -> None:
    (repo / DATA).write_bytes(weight(64, 64, seed=1).tobytes())


def _short(repo: Path) -> None:
    (repo / DATA).write_bytes(weight(64, 64, seed=1).tobytes()[:10_000])


def _outside(repo: Path) -> Path:
    outside = repo.parent / DATA
    outside.write_bytes(weight(64, 64, seed=1).tobytes())
    return outside


def _outside_and_sub(repo: Path) -> None:
    _outside(repo)
    (repo / "sub").mkdir()


def _link(repo: Path) -> None:
    (repo / DATA).symlink_to(_outside(repo))


def _linked_folder(repo: Path) -> None:
    _outside(repo)
    (repo / "data").symlink_to(repo.parent)


def _pointer(repo: Path) -> None:
    (repo / DATA).write_bytes(POINTER)


def missing_in_branch(folder: Path) -> Path:
    path = external_in_branches(folder)
    (folder / DATA).unlink()
    return path


BAD_DATA: tuple[FileTrap, ...] = (
    external("data_missing", (DATA,), "The data file was not checked in.", lambda _: None),
    FileTrap(
        name="data_missing_in_branch",
        build=missing_in_branch,
        words=(DATA,),
        why="The weight of a branch is in a file that was not checked in.",
    ),
    external("data_truncated", (DATA,), "The data file ends within the tensor.", _short),
    external("data_is_empty", (DATA,), "The data file has no bytes.", lambda repo: (repo / DATA).touch()),
    external(
        "data_is_lfs_pointer",
        (DATA, "lfs"),
        "The data file is a Git LFS pointer, the model is not.",
        _pointer,
    ),
    external(
        "data_absolute",
        (DATA,),
        "An absolute location reads any file of the machine.",
        _outside,
        location=lambda repo: str(repo.parent / DATA),
    ),
    external(
        "data_above",
        (DATA,),
        "A location with ../ reads outside the repository.",
        _outside,
        location=f"../{DATA}",
    ),
    external(
        "data_above_deep",
        (DATA,),
        "The ../ comes after a folder that exists.",
        _outside_and_sub,
        location=f"sub/../../{DATA}",
    ),
    external("data_link_outside", (DATA,), "The data file is a symbolic link out of the folder.", _link),
    external(
        "data_folder_link_outside",
        (DATA,),
        "A folder of the location is a link.",
        _linked_folder,
        location=f"data/{DATA}",
    ),
    external(
        "data_dangling_link",
        (DATA,),
        "The data file is a link to nothing.",
        lambda repo: (repo / DATA).symlink_to("nowhere.bin"),
    ),
    external("data_is_folder", (DATA,), "The location is a folder.", lambda repo: (repo / DATA).mkdir()),
    external("data_without_location", (TENSOR,), "External, but the location is not given.", location=None),
    external(
        "data_empty_location",
        (TENSOR,),
        "External, but the location is empty: that is the folder.",
        location="",
    ),
    external("data_negative_offset", (TENSOR,), "A negative offset.", offset=-4096),
    external("data_huge_offset", (TENSOR,), "An offset of 2^63, one past what int64 holds.", offset=2**63),
    external(
        "data_wrapping_offset", (TENSOR,), "Offset plus length wraps around 64 bits.", offset=2**64 - 4096
    ),
    external("data_offset_past_end", (TENSOR,), "The offset is past the end of the file.", offset=1_000_000),
    external("data_negative_length", (TENSOR,), "A negative length.", length=-1),
    external("data_huge_length", (TENSOR,), "A length of 2^62.", length=2**62),
    external("data_short_length", (TENSOR,), "The length is less than the shape needs.", length=100),
    external("data_offset_is_text", (TENSOR,), "The offset is no number.", offset="abc"),
)
