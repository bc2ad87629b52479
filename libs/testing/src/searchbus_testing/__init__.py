"""Helpers that the tests of several packages share. Not part of any image."""

from .http import HEADERS, messages, post, serve
from .processes import NatsServer, alive, command_of, descendants, free_port, watch_this_process
from .stack import SEARCHBUS, CommandResult, Stack, run_command
from .terminal import Terminal
from .waiting import at_last, eventually, known, until

__all__ = [
    "HEADERS",
    "SEARCHBUS",
    "CommandResult",
    "NatsServer",
    "Stack",
    "Terminal",
    "alive",
    "at_last",
    "command_of",
    "descendants",
    "eventually",
    "free_port",
    "known",
    "messages",
    "post",
    "run_command",
    "serve",
    "until",
    "watch_this_process",
]
