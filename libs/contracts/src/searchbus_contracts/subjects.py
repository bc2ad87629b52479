"""NATS subjects of searchbus: of requests (proto/README.md §2) and of replies (§5.1).

    subject = prefix "." "v1" "." family "." name …      e.g. sb.v1.tool.fomc.search_fomc
    reply   = inbox "." replier "." token

Every token matches ``[A-Za-z0-9_-]{1,64}``; text of a user never becomes a token.

The replier is the service that a request goes to, and on a secured bus a service may publish only
to reply subjects that name it: no service can reply for another. The token of a reply subject is
random: a service that receives one request cannot guess the reply subject of another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

DEFAULT_PREFIX = "sb"
TOKEN_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"  # noqa: S105  (a subject token, not a secret)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_token(text: str) -> bool:
    """Whether `text` is valid as one token of a subject, and as an MCP tool name."""
    return _TOKEN.fullmatch(text) is not None


def check_tokens(*tokens: str) -> None:
    """Raise ValueError for the first invalid token; a pattern's `$` would allow a newline."""
    for token in tokens:
        _checked(token)


@lru_cache(maxsize=8192)
def _checked(token: str) -> str:
    """The token itself; most requests name the same few services and tools."""
    if not is_token(token):
        raise ValueError(f"{token!r} is not a valid subject token: use 1 to 64 of A-Z a-z 0-9 _ -")
    return token


@dataclass(frozen=True, slots=True)
class Subjects:
    """Builds subjects under one prefix. Every method raises ValueError for an invalid token.

    Subjects().tool("fomc", "search_fomc")   # sb.v1.tool.fomc.search_fomc
    """

    prefix: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        _checked(self.prefix)

    def tool(self, toolset: str, tool: str) -> str:
        """The subject of one tool's calls."""
        return f"{self.prefix}.v1.tool.{_checked(toolset)}.{_checked(tool)}"

    def toolset(self, toolset: str) -> str:
        """The wildcard for a toolset's calls; its service subscribes to it in its queue group."""
        return f"{self.prefix}.v1.tool.{_checked(toolset)}.*"

    def catalog(self, service: str, digest: str) -> str:
        """The subject that replies with the descriptors of a service's catalogue hash."""
        return f"{self.prefix}.v1.catalog.{_checked(service)}.{_checked(digest)}"

    def endpoint(self, service: str, verb: str) -> str:
        """The subject of a typed endpoint, e.g. retrieval.search."""
        return f"{self.prefix}.v1.{_checked(service)}.{_checked(verb)}"

    def resource(self, toolset: str, verb: str) -> str:
        """The subject of a toolset's resources; verb is list, read, search or complete."""
        return f"{self.prefix}.v1.resource.{_checked(toolset)}.{_checked(verb)}"

    def prompt(self, toolset: str, verb: str) -> str:
        """The subject of a toolset's prompts that its worker fills in; verb is get or complete."""
        return f"{self.prefix}.v1.prompt.{_checked(toolset)}.{_checked(verb)}"

    def catalog_event(self, service: str) -> str:
        """The subject of the events that a service's worker started, stopped or changed."""
        return f"{self.prefix}.v1.evt.catalog.{_checked(service)}"

    def catalog_events(self) -> str:
        """The wildcard for the catalogue events of all services."""
        return f"{self.prefix}.v1.evt.catalog.*"

    def at(self, instance: str, subject: str) -> str:
        """The subject of one instance's own requests, by that of the queue group."""
        root = f"{self.prefix}.v1."
        if not subject.startswith(root):
            raise ValueError(f"{subject!r} is not a subject below {root}")
        return f"{root}at.{_checked(instance)}.{subject[len(root) :]}"

    def is_work(self, subject: str) -> bool:
        """Whether instances take requests of this subject at one of their own, too (see `at`)."""
        rest = subject[len(self.prefix) + 4 :]
        return not rest.startswith(("catalog.", "ctl."))

    def cancel(self, service: str) -> str:
        """The subject on which every worker of a service receives cancellations."""
        return f"{self.prefix}.v1.ctl.cancel.{_checked(service)}"

    def ping(self, service: str, instance: str) -> str:
        """The subject on which one instance of a service replies to pings."""
        return f"{self.prefix}.v1.ctl.ping.{_checked(service)}.{_checked(instance)}"


INBOX = "_INBOX"
"""Every reply subject starts with this: a worker drops a request with another one."""
DISCOVERY = "$SRV"
"""In the place of the replier where every service may reply. No service can have the name."""
PART = "$PART"
"""In the replier's place where a caller sends parts of a large request, or credit (§5.2)."""
_CREDIT = re.compile(rf"{INBOX}[A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+\.\$PART\.[A-Za-z0-9_-]+")


def inbox_prefix(service: str) -> str:
    """A service's own reply subjects start with this: no other service may subscribe there."""
    return f"{INBOX}_{service}"


def part_subject(reply: str) -> str:
    """The subject of requests for a large request's parts, by the sender's reply subject."""
    return f"{reply}.part"


def is_credit_subject(subject: str) -> bool:
    """Whether the credit for the parts of a large reply may be sent to this subject (§5.2)."""
    return _CREDIT.fullmatch(subject) is not None
