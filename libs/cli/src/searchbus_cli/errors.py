"""Why a stack cannot run."""

from searchbus_runtime.wording import CommandError


class StackError(CommandError):
    """The stack cannot start or continue."""


class AlreadyRunningError(StackError):
    """Another `searchbus up` uses the data folder."""
