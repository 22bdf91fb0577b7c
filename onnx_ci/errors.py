"""Every error that is raised, each with the exit code it leads to and a hint at the next step."""

from __future__ import annotations

import copyreg

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from collections.abc import Mapping


class OnnxCiError(Exception):
    """Something went wrong that can be explained; `exit_code` is what the command line returns."""

    exit_code = 4
    file = ""  # of the policy, where the error is about a line of it
    line = 0

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Passed between processes as it is, whatever its class is made with."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class OptionError(ValueError):
    """An option of a method is wrong; whoever reads it says where that was written."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


class UsageError(OnnxCiError):
    """The command line or the Python call does not make sense."""

    exit_code = 2


class PolicyError(OnnxCiError):
    """The policy file is wrong at a known place."""

    exit_code = 2

    def __init__(self, file: str, line: int, message: str, *, hint: str = "") -> None:
        super().__init__(f"{file}:{line}: {message}", hint=hint)
        self.file = file
        self.line = line
        self.problem = message  # without its place


class EnvironmentFault(OnnxCiError):
    """The machine lacks something: git, a package, a writable folder, disk space."""

    exit_code = 3


class ApiFault(EnvironmentFault):
    """A service did not do what it was asked to. `status` is its answer, 0 where there was none; what is
    `passing` may go well later; `limited` means that it was asked too often."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int = 0,
        passing: bool = False,
        limited: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.passing = passing
        self.limited = limited
        self.headers = headers or {}


class ModelError(OnnxCiError):
    """One model can't be read or handled; it becomes a finding, and the other models still run."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "", code: str = "OCI006") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class BuildStopped(OnnxCiError):
    """A model of a package breaks its rule; the message is the report."""

    exit_code = 1
