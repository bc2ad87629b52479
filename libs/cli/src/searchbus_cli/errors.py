"""Why a stack cannot run; the messages say what to do."""


class StackError(RuntimeError):
    """The stack cannot start or continue."""


class AlreadyRunningError(StackError):
    """Another `searchbus up` uses the data folder."""
