"""Why a stack cannot run; the messages say what to do."""


class StackError(RuntimeError):
    """The stack cannot start or continue; `code` is the exit code of the command."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class AlreadyRunningError(StackError):
    """Another `searchbus up` uses the data folder."""
