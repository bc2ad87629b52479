"""The pool of child processes; here a process is the point."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_web.extraction import pool as pool_module
from searchbus_web.extraction.pool import ReaderPool
from searchbus_web.extraction.reading import PageBytes

HANGING = PageBytes("", b"<div>" * 50_000 + b"x" * 3000, "text/html")


def plain(text: str) -> PageBytes:
    return PageBytes("", text.encode(), "text/plain")


async def test_hanging_page_costs_its_process_only():
    """It is killed and replaced; pages that wait are parsed by the others."""
    async with ReaderPool(2, timeout_s=2.0) as pool:
        hanging = asyncio.create_task(pool.read(HANGING))
        texts = await asyncio.gather(*(pool.read(plain(f"page {n}")) for n in range(20)))
        assert [text.text for text in texts] == [f"page {n}" for n in range(20)]
        assert (await hanging).problem == "too_complex"
        both = await asyncio.gather(*(pool.read(plain("again")) for _ in range(2)))
        assert [text.text for text in both] == ["again", "again"]


async def test_cancelled_page_leaves_no_half_reply(monkeypatch):
    """The next page of that process gets its own text."""
    monkeypatch.setenv("SEARCHBUS_TAVILY_API_KEYS", '["canary"]')
    async with ReaderPool(1, timeout_s=30.0) as pool:
        reading = asyncio.create_task(pool.read(HANGING))
        await asyncio.sleep(0.2)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert (await pool.read(plain("next"))).text == "next"


async def test_process_is_replaced_after_many_pages(monkeypatch):
    """And all processes are gone at the end."""
    monkeypatch.setattr(pool_module, "MAX_PAGES_PER_CHILD", 2)
    async with ReaderPool(1, timeout_s=30.0) as pool:
        await pool.ready()
        (child,) = pool._children
        first = child._process
        for _ in range(2):  # after the one that loaded the parsers
            assert (await pool.read(plain("x"))).text == "x"
        assert child._process is not first
        last = child._process
    assert (first.returncode, last.returncode) == (-9, -9)


async def test_process_that_ended_is_a_problem_of_the_page():
    """The next page gets a new process."""
    async with ReaderPool(1, timeout_s=30.0) as pool:
        await pool.ready()
        process = pool._children[0]._process
        process.kill()
        await process.wait()
        assert (await pool.read(plain("x"))).text == "x"


@pytest.mark.parametrize("size", [1, 3])
async def test_size_is_the_number_of_processes(size):
    """They are started before the first page."""
    async with ReaderPool(size, timeout_s=30.0) as pool:
        await pool.ready()
        assert all(child._process is not None for child in pool._children)
        assert len(pool._children) == size
