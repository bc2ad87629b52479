"""Reply subjects: `<inbox>.<replier>.<token>` (proto/README.md §5.1).

The replier is the service that a request goes to, and on a secured bus a service may publish only
to reply subjects that name it: no service can reply for another. The token is random, so that a
service that receives one request cannot guess the reply subject of another.
"""

from __future__ import annotations

import re

__all__ = ["DISCOVERY", "INBOX", "PART", "inbox_prefix", "is_credit_subject", "part_subject"]

INBOX = "_INBOX"
"""Every reply subject starts with this: a worker drops a request with another one."""
DISCOVERY = "$SRV"
"""In the place of the replier where every service may reply. No service can have the name."""
PART = "$PART"
"""In the place of the replier where a caller sends the parts of a large request, or the credit for
those of a large reply (§5.2)."""
_CREDIT = re.compile(rf"{INBOX}[A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+\.\$PART\.[A-Za-z0-9_-]+")


def inbox_prefix(service: str) -> str:
    """A service's own reply subjects start with this: no other service may subscribe there."""
    return f"{INBOX}_{service}"


def part_subject(reply: str) -> str:
    """The subject at which a worker requests the parts of a large request from its sender.

    Args:
        reply: the request's reply subject.
    """
    return f"{reply}.part"


def is_credit_subject(subject: str) -> bool:
    """Whether the credit for the parts of a large reply may be sent to this subject (§5.2)."""
    return _CREDIT.fullmatch(subject) is not None
