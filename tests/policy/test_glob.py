"""Patterns match what git would ignore, quickly, whatever the pattern."""

from __future__ import annotations

import itertools
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_ci.policy.glob import check_pattern, escape, matches

TABLE = [
    # pattern, paths that match, paths that do not
    ("*.onnx", ["a.onnx", "x/y/a.onnx", ".onnx"], ["a.onnx2", "a.txt", "a.onnx\n"]),
    ("/*.onnx", ["a.onnx"], ["x/a.onnx"]),
    ("./*.onnx", ["a.onnx"], ["x/a.onnx"]),
    (
        "models/**/*.onnx",
        ["models/a.onnx", "models/x/y/a.onnx"],
        ["a.onnx", "z/models/a.onnx", "models.onnx"],
    ),
    ("models/*.onnx", ["models/a.onnx"], ["models/x/a.onnx", "x/models/a.onnx"]),
    ("**/models/*.onnx", ["models/a.onnx", "x/y/models/a.onnx"], ["models/x/a.onnx"]),
    ("vendor/**", ["vendor/a", "vendor/x/y"], ["vendor", "x/vendor/a"]),
    ("vendor/", ["vendor/a", "x/vendor/y/z"], ["vendor", "x/vendor"]),
    ("vendor", ["vendor", "vendor/a", "x/vendor/y", "vendor/new\nline"], ["vendors", "xvendor/a"]),
    ("/vendor", ["vendor/a", "vendor"], ["x/vendor/a"]),
    ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c/c"], ["a/c", "a/b", "b/c"]),
    ("**", ["a", "a/b"], []),
    ("**/", ["a/b"], ["a"]),
    ("a/**/", ["a/b/c"], ["a/b", "b/c/d"]),
    ("a**b", ["ab", "axxb"], ["a/b", "a/x/b"]),
    ("m?.onnx", ["m1.onnx", "mé.onnx", "m\n.onnx"], ["m.onnx", "m12.onnx", "m/.onnx"]),
    ("[abc].onnx", ["a.onnx", "x/c.onnx"], ["d.onnx", "ab.onnx"]),
    ("[a-c-e]", ["b", "-", "e"], ["d"]),
    ("[!a].onnx", ["b.onnx", "\n.onnx"], ["a.onnx"]),
    ("[^a]x", ["bx"], ["ax"]),
    ("x[!a]y", ["xby"], ["x/y", "xay"]),
    ("[]a]", ["]", "a"], ["b"]),
    ("[!]a]", ["b"], ["]", "a"]),
    ("[z-a]x", [], ["ax", "zx", "mx"]),
    ("[\\]x]", ["]", "x"], ["\\"]),
    ("a\\*b", ["a*b"], ["axb"]),
    ("\\!a", ["!a"], ["a"]),
    ("with space.onnx", ["with space.onnx"], ["withspace.onnx"]),
    ('it\'s "é".onnx', ['d/it\'s "é".onnx'], ["its é.onnx"]),
    ("a\nb", ["a\nb"], ["a"]),
    ("(a|b)+.{2}$^", ["(a|b)+.{2}$^"], ["a"]),
]
CASES = [(pattern, path, True) for pattern, yes, _ in TABLE for path in yes]
CASES += [(pattern, path, False) for pattern, _, no in TABLE for path in no]


@pytest.mark.parametrize(("pattern", "path", "expected"), CASES)
def test_table(pattern: str, path: str, expected: bool) -> None:
    check_pattern(pattern)
    assert matches(pattern, path) is expected


def git_ignores(folder: Path, pattern: str, paths: list[str]) -> set[str]:
    (folder / ".gitignore").write_bytes(pattern.encode() + b"\n")
    done = subprocess.run(
        ["git", "-c", "core.ignorecase=false", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=folder, input="\0".join(paths), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.split("\0")) - {""}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def test_same_as_git(repository: Path) -> None:
    paths = ["/".join(parts) for n in (1, 2, 3, 4) for parts in itertools.product(["a", "b", "ab"], repeat=n)]
    patterns = [pattern for pattern, _, _ in TABLE if pattern.isascii() and "\n" not in pattern]
    patterns += [
        "a/*",
        "*/a",
        "a/*/b",
        "**/a/b",
        "a/**/b",
        "a/**/**/b",
        "/**/b",
        "a*b/",
        "*a*",
        "?b",
        "[a]b/**",
    ]
    patterns += ["**a", "a**", "**/a**/b", "a/b/", "/a/", "*", "*/", "**/*", "*/**", "a/**/a/**", "[!b]*/b"]
    for pattern in patterns:
        if not pattern.startswith("./"):  # git never matches these; we read them as people mean them
            ours = {path for path in paths if matches(pattern, path)}
            assert ours == git_ignores(repository, pattern, paths), pattern


def reference(pattern: list[str], path: list[str]) -> bool:
    """Segments against segments, by the definition, with all the backtracking there is."""
    if not pattern:
        return True  # whatever the pattern named, the path is it or lies inside
    if pattern == ["**"]:
        return bool(path)
    if pattern[0] == "**":
        return any(reference(pattern[1:], path[n:]) for n in range(len(path)))
    return bool(path) and letters(pattern[0], path[0]) and reference(pattern[1:], path[1:])


def letters(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(letters(pattern[1:], name[n:]) for n in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and letters(pattern[1:], name[1:])


segments = st.one_of(st.just("**"), st.text("ab*?", min_size=1, max_size=5))
names = st.text("ab", min_size=1, max_size=5)


@pytest.mark.sampled(0)
@settings(max_examples=400, deadline=None)
@given(st.lists(segments, min_size=1, max_size=5), st.lists(names, min_size=1, max_size=6))
def test_same_as_the_definition(pattern: list[str], path: list[str]) -> None:
    assert matches("/" + "/".join(pattern), "/".join(path)) is reference(pattern, path)
    if len(pattern) == 1:
        assert matches(pattern[0], "/".join(path)) is reference(["**", *pattern], path)


file_names = st.text(min_size=1, max_size=12).filter(lambda name: "/" not in name and name not in (".", ".."))


@settings(deadline=None)
@given(
    st.lists(file_names, min_size=1, max_size=3).map("/".join), st.lists(file_names, min_size=1).map("/".join)
)
def test_an_escaped_path_matches_itself_alone(path: str, other: str) -> None:
    pattern = escape(path)
    check_pattern(pattern)
    assert matches(pattern, path)
    assert matches(pattern, other) is (other == path or other.startswith(path + "/"))


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 40 + "b",
        "**/a/" * 40 + "b",
        "*a*a*a/" * 20 + "b",
        "**/*a*a/" * 20 + "b",
        "[!b]*" * 40,
        "*" * 4000 + "b",
    ],
)
def test_hostile_patterns_take_no_time(pattern: str) -> None:
    check_pattern(pattern)
    start = time.process_time()
    for path in ("a" * 2000, "a/" * 1000 + "c", "aaaa/" * 400 + "c"):
        matches(pattern, path)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "pattern", ["", "/", "//a", "a//b", "a/./b", "..", "a/..", "!a", "[a", "a[!]", "a\\", "x" * 5000]
)
def test_patterns_that_could_never_match_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|can't|leaves|ends) "):
        check_pattern(pattern)
