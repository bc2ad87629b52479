"""Word documents (.docx) to text, by mammoth: headings, paragraphs, lists, tables, footnotes."""

from __future__ import annotations

import io
import zipfile
from xml.etree import ElementTree

from searchbus_pages import read_html

from .item import Reason, SkipError

__all__ = ["check_package", "docx_to_text", "is_xml"]

MAX_XML_BYTES = 64 * 1024 * 1024
"""Of all parts, unpacked: a small file may unpack to gigabytes."""
_OLE = b"\xd0\xcf\x11\xe0"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def docx_to_text(body: bytes) -> tuple[str | None, str]:
    """Title of the document's properties, and its text as Markdown. Pictures are left out.

    Raises:
        SkipError: not a Word document, encrypted, or too large when unpacked.
    """
    import mammoth  # slow to import, and needed seldom

    if body.startswith(_OLE):
        problem = "encrypted, or an old .doc; save it as .docx without a password"
        raise SkipError(Reason.UNREADABLE, problem)
    try:
        title = check_package(body)
        html = mammoth.convert_to_html(
            io.BytesIO(body),
            style_map=_STYLES,
            convert_image=mammoth.images.img_element(lambda image: {}),
        ).value
        return title, read_html(html).text
    except SkipError:
        raise
    except Exception as error:  # mammoth raises errors of every kind on broken documents
        problem = f"cannot be read: not a readable Word document ({type(error).__name__})"
        raise SkipError(Reason.UNREADABLE, problem) from None


def check_package(body: bytes) -> str | None:
    """The title of a file of Office, where it has one.

    Raises:
        SkipError: its parts unpack to more than the limit.
    """
    with zipfile.ZipFile(io.BytesIO(body)) as parts:
        size_bytes = sum(part.file_size for part in parts.infolist() if is_xml(part.filename))
        if size_bytes > MAX_XML_BYTES:
            limit = f"{MAX_XML_BYTES // 1024 // 1024} MiB"
            problem = f"its parts unpack to more than {limit}, the limit of a document; split it"
            raise SkipError(Reason.TOO_LARGE, problem)
        if "docProps/core.xml" not in parts.namelist():
            return None
        # expat itself limits how far entities expand.
        return ElementTree.fromstring(parts.read("docProps/core.xml")).findtext(_TITLE)  # noqa: S314


def is_xml(name: str) -> bool:
    """Whether a part of this name counts for the limit of what is unpacked."""
    return name.endswith((".xml", ".rels"))
