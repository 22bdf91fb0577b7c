"""Count the package's modules, code lines and import edges: `python benchmarks/code_size.py`.

A code line holds code: blank lines, comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "onnx_ci"
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the lines that docstrings stand on."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def code_lines(source: str) -> int:
    """Return the number of lines of a module that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(source)))


def imported_modules(source: str, modules: set[str]) -> set[str]:
    """Return the package's own modules that a module imports, at its top or within functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names & modules


def main() -> None:
    files = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__init__.py"
    }
    sources = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    sizes = {name: code_lines(source) for name, source in sources.items()}
    packages = sum(code_lines(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("__init__.py"))
    edges = sum(len(imported_modules(source, set(files))) for source in sources.values())
    largest = max(sizes, key=lambda name: sizes[name])
    print(f"modules            {len(files)}")
    print(f"code lines         {sum(sizes.values()) + packages}")
    print(f"median module      {statistics.median(sizes.values()):g}")
    print(f"largest module     {sizes[largest]} ({largest})")
    print(f"import edges       {edges} ({edges / len(files):.1f} a module)")
    rooms: dict[str, list[int]] = {}
    for name, size in sizes.items():
        room = name.split(".")[1] if name.count(".") > 1 else "(hall)"
        rooms.setdefault(room, []).append(size)
    print("\nroom        modules   lines")
    for room, lines in sorted(rooms.items()):
        print(f"{room:<12}{len(lines):>7}{sum(lines):>8}")


if __name__ == "__main__":
    main()
