"""Whatever happens becomes an exit code and one sentence: for the command line and for the action."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from onnx_ci.errors import OnnxCiError

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    Complain = Callable[[OnnxCiError], None]


INTERRUPTED = "interrupted; no model was left half written"


class Stopped(KeyboardInterrupt):
    """A signal that asks us to end; whatever cleans up after Ctrl-C does so after this."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end us as Ctrl-C does; where they are ignored, as under nohup, they stay so."""

    def stop(number: int, _: object) -> None:
        for each in ours:  # once is enough: cleaning up is not to be cut short
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # only the main thread may
    ours = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def guarded(work: Callable[[], int], complain: Complain) -> int:
    """Run something; everything it raises ends here."""
    _open_closed_streams()
    try:
        with _stopped_by_signals():
            return work()
    except OnnxCiError as error:
        complain(error)
        return error.exit_code
    except Stopped as stop:
        complain(OnnxCiError(INTERRUPTED))
        return 128 + stop.number
    except KeyboardInterrupt:
        complain(OnnxCiError(INTERRUPTED))
        return 130
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        hint = "check the disk, the folder and its permissions"
        complain(OnnxCiError(f"{error.strerror or error}{where}", hint=hint))
        return 3
    except Exception as error:  # noqa: BLE001 - the one place: a bug of ours must not look like a verdict
        from onnx_ci.crash import keep_traceback

        message, hint = keep_traceback(error)
        complain(OnnxCiError(f"{message}; the run ended there", hint=hint))
        return 4


def _open_closed_streams() -> None:
    """Whoever started us may have closed them (`2>&-`). Nothing else may get their numbers: what a process of
    ours prints would go there."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, "r" if name == "stdin" else "w", encoding="utf-8"))
