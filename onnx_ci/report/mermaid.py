"""A picture of before and after that GitHub and GitLab draw: bars, the new size in front of the old one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from onnx_ci.results import Outcome
from onnx_ci.sizes import SIZE_UNITS

SHOWN = 12  # models: more bars can't be told apart
LONGEST = 28  # characters of a label
# Grey and blue, which can be seen on white and on black.
COLOURS = "#9aa7b5, #1f6feb"


def picture(outcomes: Sequence[Outcome], after: str) -> str:
    """Empty where no model would change; `after` is what the new size is called."""
    both = [(o.path, o.before.size, o.after.size) for o in outcomes if o.before and o.after]
    shown = sorted(both, key=lambda row: -row[1])[:SHOWN]
    if not any(old != new for _, old, new in shown):
        return ""
    largest = max(max(old, new) for _, old, new in shown)
    unit = _unit(largest)
    labels = ", ".join(f'"{label}"' for label in _labels([path for path, _, _ in shown]))
    more = f", the {SHOWN} largest" if len(both) > SHOWN else ""
    lines = [
        f"%%{{init: {_look(len(shown))}}}%%",
        "xychart-beta horizontal",
        f'  title "{unit} before (grey), {after} (blue){more}"',
        f"  x-axis [{labels}]",
        f'  y-axis "{unit}" 0 --> {_number(largest, unit)}',
        f"  bar [{', '.join(_number(old, unit) for _, old, _ in shown)}]",
        f"  bar [{', '.join(_number(new, unit) for _, _, new in shown)}]",
    ]
    return "\n".join(["```mermaid", *lines, "```\n\n"])


def _look(bars: int) -> str:
    return json.dumps(
        {"xyChart": {"height": 100 + 40 * bars}, "themeVariables": {"xyChart": {"plotColorPalette": COLOURS}}}
    )


def _labels(paths: Sequence[str]) -> list[str]:
    """Plain letters only: a quote would end a label. A number keeps two of the same name apart."""
    found: list[str] = []
    for number, path in enumerate(paths, 1):
        plain = re.sub(r"[^A-Za-z0-9._/ -]", "_", path)
        label = plain if len(plain) <= LONGEST else f"..{plain[2 - LONGEST :]}"
        found.append(f"{label} {number}" if label in found else label)
    return found


def _unit(largest: int) -> str:
    return next((unit for unit in ("GB", "MB", "kB") if largest >= SIZE_UNITS[unit]), "B")


def _number(size: int, unit: str) -> str:
    return f"{size / SIZE_UNITS[unit]:.3f}".rstrip("0").rstrip(".")
