"""A model in another form: `onnx-ci restore`, `onnx-ci embed`, and `onnx-ci cmake-dir` for builds."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from onnx_ci.cli.output import existing_path, flag, value
from onnx_ci.errors import UsageError
from onnx_ci.util.files import atomic_write
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import counted, one_line

ARGUMENTS = {
    "restore": (
        value("source MODEL", "a model with its data or .npy files beside it"),
        value(
            "target OUT",
            "the file to write; MODEL itself to do it in place (with --original the default)",
            nargs="?",
        ),
        flag("--original", "the model as it was before onnx-ci shrank it"),
    ),
    "embed": (
        value("model MODEL", "a model without external data"),
        value("target OUT.c", "the C file to write; a header goes beside it"),
        value("--symbol NAME", "the array's name (default: from the model's)"),
    ),
}
EXAMPLES = {
    "restore": """\
onnx-ci restore model.onnx whole.onnx       external data back into one file
onnx-ci restore --original model.onnx       the model before it was shrunk""",
    "embed": "onnx-ci embed model.onnx model.c --symbol encoder",
}


def run_restore(options: argparse.Namespace) -> int:
    source = existing_path(options.source, "restore MODEL OUT")
    if options.target is None and not options.original:
        message = "OUT is missing: the file to write"
        raise UsageError(message, hint="to have the model before it was shrunk: --original")
    from onnx_ci.gate.single import check_target

    target = Path(options.target or options.source)
    check_target(source, target)
    if options.original:
        return _restore_original(source, target)
    from onnx_ci.methods.layout import restore_file

    count = restore_file(source, target)
    size = format_size(target.stat().st_size)
    sys.stdout.write(f"{one_line(options.target)}: {size} in one file, {counted(count, 'tensor')} put back\n")
    return 0


def _restore_original(source: Path, target: Path) -> int:
    from onnx_ci.repo.git import find_root, repository_of
    from onnx_ci.repo.original import restore_original
    from onnx_ci.report.text import PLACES

    here = find_root(Path.cwd())
    state, size = restore_original(source, target, repository_of(source.resolve().parent, here))
    place = f"{PLACES[state.place]} ({one_line(state.where)})"
    description = f"{format_size(size)}, as it was before it was shrunk, from {place}"
    sys.stdout.write(f"{one_line(str(target))}: {description}\n")
    return 0


LINE = 20  # bytes a line
# Of C and C++, which may both include the header; what starts with an underscore is left to the compiler.
KEYWORDS = (
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const"
    " const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete"
    " do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long"
    " main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public"
    " register reinterpret_cast requires restrict return short signed size_t sizeof static static_assert"
    " static_cast struct switch template this thread_local throw true try typedef typeid typename typeof"
    " union unsigned using virtual void volatile wchar_t while xor xor_eq "
)


def run_embed(options: argparse.Namespace) -> int:
    from onnx_ci.model.replace import data_of

    model, target = existing_path(options.model, "embed MODEL OUT.c", Path.is_file), Path(options.target)
    if target.suffix != ".c":
        raise UsageError(f"{options.target!r} is no C file", hint=f"for example: {target.with_suffix('.c')}")
    symbol = options.symbol or re.sub(r"\W|^(?=\d)", "_", model.name, flags=re.ASCII)
    if f" {symbol} " in KEYWORDS or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", symbol):
        raise UsageError(f"{symbol!r} is no name for a C array", hint="for example: --symbol encoder_onnx")
    if data := data_of(model):
        raise UsageError(
            f"{options.model} keeps weights in {', '.join(map(repr, data))}; only one file can be embedded",
            hint="take them into the model first: methods: [{external-data: {embed: true}}]",
        )
    header = target.with_suffix(".h")
    _write(header, [_declared(symbol)])
    _write(target, _defined(symbol, header.name, model))
    return 0


def _declared(symbol: str) -> str:
    return (
        f"#ifndef ONNX_CI_{symbol}_H\n#define ONNX_CI_{symbol}_H\n#include <stddef.h>\n"
        '#ifdef __cplusplus\nextern "C" {\n#endif\n'
        f"extern const unsigned char {symbol}[];\nextern const size_t {symbol}_size;\n"
        "#ifdef __cplusplus\n}\n#endif\n#endif\n"
    )


def _defined(symbol: str, header: str, model: Path) -> Iterator[str]:
    yield f'#include "{header}"\n\nconst unsigned char {symbol}[] = {{\n'
    size = 0
    with model.open("rb") as file:
        while piece := file.read(LINE):
            size += len(piece)
            yield ",".join(map(str, piece)) + ",\n"
    yield f"}};\nconst size_t {symbol}_size = {size};\n"


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(lines)


def run_cmake_dir(_: argparse.Namespace) -> int:
    sys.stdout.write(f"{Path(__file__).resolve().parents[1] / 'cmake'}\n")
    return 0
