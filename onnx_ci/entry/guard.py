"""Whatever happens becomes an exit code and one sentence: for the command line and for the action."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from onnx_ci.errors import OnnxCiError

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    Complain = Callable[[OnnxCiError], None]


def guarded(work: Callable[[], int], complain: Complain) -> int:
    """Run something; everything it raises ends here."""
    _open_closed_streams()
    try:
        return work()
    except OnnxCiError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        complain(OnnxCiError("interrupted; no model was left half written"))
        return 130
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        hint = "check the disk, the folder and its permissions"
        complain(OnnxCiError(f"{error.strerror or error}{where}", hint=hint))
        return 3
    except Exception as error:  # noqa: BLE001 - the one place: a bug of ours must not look like a verdict
        from onnx_ci.entry.crash import report_crash

        message, hint = report_crash(error)
        complain(OnnxCiError(message, hint=hint))
        return 4


def _open_closed_streams() -> None:
    """Whoever started us may have closed them (`2>&-`). Nothing else may get their numbers: what a process of
    ours prints would go there."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, "r" if name == "stdin" else "w", encoding="utf-8"))
