"""The pool of child processes; here a process is the point."""

from __future__ import annotations

import asyncio
import signal

import pytest

from searchbus_runtime import child
from searchbus_testing import until
from searchbus_web.extraction import pool as pool_module
from searchbus_web.extraction.pool import ReaderPool
from searchbus_web.extraction.reading import PageBytes, RobotsQuestion

HANGING = PageBytes("", b"hangs", "text/plain")


@pytest.fixture
def stopped(monkeypatch):
    """A process that is asked for the page HANGING is stopped: no machine is quick enough for it.

    Its content is the processes that are stopped.
    """
    found = []
    answer = pool_module._Child.answer

    async def asked(child, question, timeout_s):
        if question is HANGING:
            child._process.send_signal(signal.SIGSTOP)
            found.append(child._process)
        return await answer(child, question, timeout_s)

    monkeypatch.setattr(pool_module._Child, "answer", asked)
    return found


def plain(text: str) -> PageBytes:
    return PageBytes("", text.encode(), "text/plain")


async def test_hanging_page_costs_its_process_only(stopped):
    """It is killed and replaced; pages of others are parsed meanwhile."""
    async with ReaderPool(2, timeout_s=0.1) as pool:
        hanging = asyncio.create_task(pool.read(HANGING))
        await until(lambda: stopped)
        pool._timeout_s = 60.0  # for the pages that do not hang
        texts = await asyncio.gather(
            *(pool.read(plain(f"page {n}"), caller="b") for n in range(20))
        )
        assert [text.text for text in texts] == [f"page {n}" for n in range(20)]
        assert (await hanging).problem == "too_complex"
        assert stopped[0].returncode == -signal.SIGKILL
        both = await asyncio.gather(*(pool.read(plain("again")) for _ in range(2)))
        assert [text.text for text in both] == ["again", "again"]


async def test_cancelled_page_leaves_no_half_reply(monkeypatch, stopped):
    """The next page of that process gets its own text."""
    monkeypatch.setenv("SEARCHBUS_TAVILY_API_KEYS", '["canary"]')
    async with ReaderPool(1, timeout_s=60.0) as pool:
        reading = asyncio.create_task(pool.read(HANGING))
        await until(lambda: stopped)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert (await pool.read(plain("next"))).text == "next"


async def test_process_is_replaced_after_many_pages(monkeypatch):
    """And all processes are gone at the end."""
    monkeypatch.setattr(child, "MAX_ANSWERS", 2)
    async with ReaderPool(1, timeout_s=30.0) as pool:
        await pool.ready()
        (one,) = pool._children
        first = one._process
        for _ in range(2):
            assert (await pool.read(plain("x"))).text == "x"
        await pool.ready()
        last = one._process
        assert last is not first
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
    """None is started before pages are expected."""
    async with ReaderPool(size, timeout_s=30.0) as pool:
        assert not any(child.is_alive() for child in pool._children)
        assert (await pool.read(plain("x"))).text == "x"
        await pool.ready()
        assert sum(child.is_alive() for child in pool._children) == size


async def test_caller_has_half_of_the_processes(stopped):
    """Pages that one caller chose to take long do not stop the pages of the others."""
    async with ReaderPool(2, timeout_s=600.0) as pool:
        await pool.ready()
        hanging = [asyncio.create_task(pool.read(HANGING, caller="a")) for _ in range(4)]
        await until(lambda: stopped)
        texts = [await pool.read(plain(f"page {n}"), caller="b") for n in range(3)]
        assert [text.text for text in texts] == ["page 0", "page 1", "page 2"]
        assert not any(task.done() for task in hanging)
        assert len(stopped) == 1
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)


@pytest.mark.usefixtures("stopped")
async def test_new_process_gets_pages_once_it_is_loaded(monkeypatch):
    """Also one that replaces another: every page has the same time, and none that of the imports."""
    asked = []
    answer = pool_module._Child.answer

    async def recorded(child, question, timeout_s):
        asked.append((question is pool_module._WARM, timeout_s))
        return await answer(child, question, timeout_s)

    monkeypatch.setattr(pool_module._Child, "answer", recorded)
    async with ReaderPool(1, timeout_s=0.1) as pool:
        for _ in range(2):
            assert (await pool.read(HANGING)).problem == "too_complex"
    page_s, warm_s = 0.1, pool_module._LOAD_S
    assert asked[:4] == [(True, warm_s), (False, page_s), (True, warm_s), (False, page_s)]


async def test_process_that_cannot_be_started_is_started_again(monkeypatch):
    """Pages wait for it."""
    monkeypatch.setattr(pool_module, "_AGAIN_S", 0.0)
    start, failures = asyncio.create_subprocess_exec, [OSError("no memory")] * 2

    async def failing(*args, **options):
        if failures:
            raise failures.pop()
        return await start(*args, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", failing)
    async with ReaderPool(1, timeout_s=30.0) as pool:
        assert (await pool.read(plain("x"))).text == "x"
    assert failures == []


async def test_robots_txt_is_read_by_a_process():
    """One that takes too long forbids the page."""
    async with ReaderPool(1, timeout_s=30.0) as pool:
        rules = b"User-agent: *\nDisallow: /private/\n"
        urls = ["http://a.org/private/x", "http://a.org/x"]
        allowed = [
            (await pool.obey(RobotsQuestion(rules, url, "searchbus"))).allowed for url in urls
        ]
        assert allowed == [False, True]
        pool._timeout_s = 0.0
        assert not (await pool.obey(RobotsQuestion(rules, urls[1], "searchbus"))).allowed
