"""Say whether this tree can be released under a tag: `python .ci/release.py v0.1.0`.

The tag is the version; the snippets that users copy name it; the changelog tells of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHOWN = ("*.md", "docs/*.md", "examples/*.yml", "templates/*.yml")
# As they are printed: of the action, of its part for other steps, of the hooks, of the GitLab component.
SNIPPETS = re.compile(r"onnx-ci/onnx-ci(?:/setup|/onnx-ci)?@(v\S+)|^\s*rev: (v[\w.]+)", re.MULTILINE)


def problems(tag: str) -> Iterator[str]:
    version = re.search(r'__version__ = "(.*)"', (ROOT / "onnx_ci" / "version.py").read_text())
    if not version or tag != f"v{version[1]}":
        yield f"the tag {tag} is not the version {version[1] if version else '?'} of onnx_ci/version.py"
    for file in sorted(file for pattern in SHOWN for file in ROOT.glob(pattern)):
        for found in SNIPPETS.finditer(file.read_text(encoding="utf-8")):
            named = (found[1] or found[2]).strip("`'\",)")
            if named != tag:
                yield f"{file.relative_to(ROOT).as_posix()}: a snippet names {named}, which is not {tag}"
    if f"## {tag[1:]}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md has no section {tag[1:]}"


def main(tags: list[str]) -> int:
    found = [problem for tag in tags for problem in problems(tag)]
    sys.stderr.write("".join(f"{problem}\n" for problem in found))
    return int(bool(found) or len(tags) != 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
