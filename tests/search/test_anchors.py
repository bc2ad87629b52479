"""Anchors of ten thousand passages of three collections: read from files, from lines, and cut by another program."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from searchbus_contracts.ingest import NewDocument
from searchbus_contracts.retrieval import SearchHit
from searchbus_ingest.sources.content import SUFFIXES
from searchbus_ingest.sources.files import read_files
from searchbus_ingest.sources.item import cut
from searchbus_ingest.sources.jsonl import read_jsonl
from searchbus_ingest.sources.reading import Reader
from searchbus_ingest.sources.walk import find_files
from searchbus_retrieval.library import Library
from searchbus_testing.folders import quick_folder
from searchbus_vectors import load_embedder, open_store

WORDS = (
    "rates", "inflation", "Committee", "pears", "raise", "5\u20111/4", "\u00bc", "cafe\u0301", "caf\u00e9", "n\u0303andu\u0301",
    "\U0001f350", "\U0001f469\u200d\U0001f4bb", "\u9be8\u306e\u6b4c", "\u05e9\u05dc\u05d5\u05dd", "\u0e40\u0e07\u0e34\u0e19", "\u00a0", "\u2028", "\t", "\ufeff", "\u00df", "\u0130",
    "12.50", "U.S.", "e.g.", "\u201cquoted\u201d", "na\u00ef\u0308ve", "\u200b", "\U0001f1e9\U0001f1ea",
)  # fmt: skip
PASSAGES = 10_000


def prose(draw: random.Random, chars: int) -> str:
    """Headings, sentences, lists and tables, with line ends of both kinds."""
    parts: list[str] = []
    length = 0
    while length < chars:
        line = draw.choice(("\n", "\r\n"))
        words = [draw.choice(WORDS) + draw.choice(("", "", str(draw.randrange(999)))) for _ in range(draw.randrange(4, 40))]  # fmt: skip
        kind = draw.randrange(8)
        if kind == 0:
            part = f"{line}Heading of {words[0]}{line}{line}"
        elif kind == 1:
            part = f"| {' | '.join(words[:4])} |{line}" * draw.randrange(2, 9)
        elif kind == 2:
            part = f"- {' '.join(words[:6])}{line}" * draw.randrange(2, 6)
        else:
            part = " ".join(words) + draw.choice(
                (". ", "! ", "?\u201d ", "\u3002", f".{line}{line}")
            )
        parts.append(part)
        length += len(part)
    return "".join(parts)


async def files(folder: Path, draw: random.Random) -> AsyncIterator[NewDocument]:
    """Files of each kind of text, some of them with a byte order mark."""
    for n, suffix in enumerate((".txt", ".md", ".html", ".csv") * 20):
        text = prose(draw, 50_000)
        if suffix == ".csv":
            text = "".join(f"{draw.choice(WORDS)},{n},{draw.random()}\r\n" for n in range(1500))
        if suffix == ".html":
            text = f"<html><body><h1>T</h1><p>{'</p><p>'.join(text.split('.'))}</p></body></html>"
        (folder / f"d{n}{suffix}").write_bytes(draw.choice((b"", b"\xef\xbb\xbf")) + text.encode())
    async with Reader() as reader:
        async for item in read_files(find_files(folder, SUFFIXES), "files", reader):
            assert item.document is not None, str(item)
            yield item.document


def lines(folder: Path, draw: random.Random) -> Iterator[NewDocument]:
    """Documents of one file of JSON Lines."""
    path = folder / "lines.jsonl"
    rows = (json.dumps({"id": n, "title": f"T{n}", "text": prose(draw, 60_000)}) for n in range(70))
    path.write_text("\n".join(rows))
    for item in read_jsonl(path, "lines"):
        assert item.document is not None, str(item)
        yield item.document


def made(draw: random.Random) -> Iterator[NewDocument]:
    """Documents that another program cut."""
    for n in range(70):
        text = prose(draw, 60_000)
        yield NewDocument(
            document_id=f"made/{n}", title=f"T{n}", text=text, chunks=tuple(cut(text))
        )


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


Texts = dict[tuple[str, str], tuple[str, str]]
"""Collection and document → the text that is served, and its hash."""


async def check(library: Library, hits: list[SearchHit], texts: Texts) -> None:
    """text[start:end] is the passage, and the hash is that of the text that is served."""
    for hit in hits:
        key = hit.collection, hit.document_id
        if key not in texts:
            text = (await library.get_from([key[0]], key[1])).text
            texts[key] = text, hashlib.sha256(text.encode()).hexdigest()
        text, content_hash = texts[key]
        assert text[hit.start : hit.end] == hit.text
        assert hit.content_hash == content_hash


@pytest.mark.slow
async def test_anchors_hold_for_every_passage(tmp_path):
    """After an ingest and after a second one, which changes some of the documents."""
    draw = random.Random(20)
    with quick_folder() as folder:
        store = await open_store(folder=folder)
        embedder = await load_embedder("hash")
        library = await Library.open(store, embedder)
        documents = {
            "files": [one async for one in files(_folder(tmp_path / "files"), draw)],
            "lines": list(lines(_folder(tmp_path / "lines"), draw)),
            "made": list(made(draw)),
        }
        assert sum(len(d.chunks) for found in documents.values() for d in found) > PASSAGES
        for name, found in documents.items():
            for document in found:
                assert (await library.store(name, document)).outcome == "stored"
        checked, texts = 0, {}
        while checked < PASSAGES:
            name = draw.choice(list(documents))
            query = " ".join(draw.sample(WORDS, 3)) + f" {draw.randrange(999)}"
            hits = await library.search(name, query, limit=50)
            await check(library, hits, texts)
            checked += len(hits)
        old = {}
        for name, found in documents.items():
            for document in found[::9]:
                key = name, document.document_id
                old[key] = (await library.get_from([key[0]], key[1])).content_hash
                text = f"New beginning. {document.text}"
                changed = NewDocument(
                    document_id=document.document_id, title=document.title, text=text, chunks=tuple(cut(text))
                )  # fmt: skip
                assert (await library.store(name, changed)).outcome == "replaced"
        texts, seen = {}, set()
        for name in documents:
            for _ in range(20):
                hits = await library.search(name, " ".join(draw.sample(WORDS, 3)), limit=50)
                await check(library, hits, texts)
                seen |= {(h.collection, h.document_id, h.content_hash) for h in hits}
        assert not {(*key, content_hash) for key, content_hash in old.items()} & seen
        await store.close()
