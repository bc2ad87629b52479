"""What is wrong with a server or its declaration, in words for the operator."""

from __future__ import annotations

from typing import Self


class ServerProblem(str):
    """Why a server is not up, for the operator; `told` is for callers: neither hosts, nor files,
    nor what a command printed."""

    __slots__ = ("told",)

    told: str

    def __new__(cls, text: str, told: str) -> Self:
        """Make one."""
        self = super().__new__(cls, text)
        self.told = told
        return self


class ServerDeclarationError(ValueError):
    """A server is declared wrongly; the message names the key and says what to do."""


class ServerError(RuntimeError):
    """A server that cannot be used as it behaves; the message says why, without secrets; `detail`
    is for the operator alone."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class ItselfError(ServerError):
    """A server that is the searchbus which attaches it: each list would contain the last one."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it is this searchbus itself; searchbus attach remove {name}")


class AuthError(ServerError):
    """There is no token now. The message says why and what to do, without secrets and without
    text of others.
    """


class LoginRequiredError(AuthError):
    """There is no token until a person signs in."""
