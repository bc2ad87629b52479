"""Files that people and other programs write: UTF-8, or what Windows PowerShell makes of a text."""

from __future__ import annotations

import codecs
from pathlib import Path

from ..faults import DeclarationFault

__all__ = ["read_text"]


def read_text(path: Path) -> str:
    """The text of a file: UTF-8, with or without a byte order mark, or UTF-16 with one.

    Raises:
        DeclarationFault: it is none of these; the message names the file.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        mark = file.read(2)
    is_wide = mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    try:
        return path.read_text(encoding="utf-16" if is_wide else "utf-8-sig")
    except UnicodeError:
        raise DeclarationFault(
            f"{path} is not text in UTF-8: open it in an editor and save it as UTF-8."
        ) from None
