"""Messages as NATS's client protocol has them, read and written at once."""

from __future__ import annotations

from collections.abc import Container, Mapping

from ..transport import Message

_VERSION = b"NATS/1.0\r\n"
_MAX_LINE_BYTES = 4096


def read_messages(
    data: bytes, subscriptions: Container[int]
) -> tuple[list[tuple[int, Message]], bytes]:
    """The whole messages at the start of `data` (NATS's client protocol, from the start of a line)
    with the ids of their subscriptions, and the rest. A message of another subscription ends the
    reading."""
    found: list[tuple[int, Message]] = []
    start = 0
    while start < len(data):
        if data.startswith(b"MSG ", start):
            headers = 0
        elif data.startswith(b"HMSG ", start):
            headers = 1
        else:
            break
        line_end = data.find(b"\r\n", start, start + _MAX_LINE_BYTES)
        # MSG subject id [reply] size; HMSG subject id [reply] header-size size
        fields = data[start:line_end].split() if line_end > 0 else []
        has_reply = len(fields) - headers == 5
        numbers = [fields[2], *fields[3 + has_reply :]] if len(fields) >= 4 + headers else []
        if len(numbers) != 2 + headers or not all(map(bytes.isdigit, numbers)):
            break
        sid, *sizes = map(int, numbers)
        begin, end = line_end + 2, line_end + 2 + sizes[-1]
        if sid not in subscriptions or end + 2 > len(data):
            break
        block: Mapping[str, str] | None = {}
        if headers:
            block = usual_headers(data[begin : begin + sizes[0]])
            begin += sizes[0]
        if block is None or begin > end:
            break
        reply = fields[3].decode("utf-8", "replace") if has_reply else ""
        subject = fields[1].decode("utf-8", "replace")
        found.append((sid, Message(subject, data[begin:end], reply, block)))
        start = end + 2
    return found, data[start:] if start else data


def usual_headers(block: bytes) -> dict[str, str] | None:
    """The headers as the bus writes them, at least one; None: left to nats-py."""
    if not block.startswith(_VERSION) or not block.endswith(b"\r\n\r\n") or not block.isascii():
        return None
    found = {}
    for line in block[len(_VERSION) : -4].decode("ascii").split("\r\n"):
        name, mark, value = line.partition(": ")
        # Printable: no white space but blanks.
        if not mark or not line.isprintable() or " " in name or ":" in name:
            return None
        found[name] = value.strip()
    return found


def is_plain(subject: str) -> bool:
    """Whether a subject has neither white space nor line breaks, which would end it."""
    return subject.isprintable() and " " not in subject


def publish_command(
    subject: str, reply: str, payload: bytes, headers: Mapping[str, str] | None
) -> bytes | None:
    """PUB or HPUB of NATS's client protocol; None where a header holds a line break."""
    if not headers:
        return b"PUB %s %s %d\r\n%s\r\n" % (
            subject.encode(), reply.encode(), len(payload), payload,
        )  # fmt: skip
    # Added, not formatted: names may be members of an Enum of strings.
    lines = "\r\n".join([name + ": " + value for name, value in headers.items()])
    if lines.count("\n") >= len(headers) or lines.count("\r") >= len(headers):
        return None
    block = f"NATS/1.0\r\n{lines}\r\n\r\n".encode()
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (
        subject.encode(), reply.encode(), len(block), len(block) + len(payload), block, payload,
    )  # fmt: skip
