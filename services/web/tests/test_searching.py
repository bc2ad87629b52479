"""The three searches: providers, failures, filters, fusion."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import jsonschema
import pytest

from searchbus_contracts import Fault
from searchbus_upstream import Reply, Request, UpstreamTimeout, canonical_key
from searchbus_web.fusion import fuse
from searchbus_web.providers import tavily
from searchbus_web.providers.account import Account
from searchbus_web.results import Result, iso_date, registrable_domain
from searchbus_web.settings import WebSettings

KEYS = {"tavily_api_keys": ("tvly-canary-1",)}
RESPONSE = {
    "type": "object",
    "required": ["query", "results"],
    "properties": {
        "query": {"type": "string"},
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["title", "url", "snippet"],
                "properties": {
                    "title": {"type": "string"},
                    "url": {"type": "string", "format": "uri"},
                    "snippet": {"type": "string"},
                    "publishedAt": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}(T.*Z)?$"},
                    "source": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
    },
}


@pytest.mark.parametrize("provider", ["ddg", "tavily", "brave", "searxng"])
@pytest.mark.parametrize(
    ("tool", "wanted"), [("web_search", 10), ("web_search_advanced", 25), ("web_search_news", 20)]
)
async def test_every_provider_serves_every_search(web, provider, tool, wanted):
    """In the specification's form, as many as asked for, or said why not."""
    await web.start(
        web_providers=(provider,), **KEYS, brave_api_keys=("b",), searxng_url=f"{web.url}/searxng"
    )
    answer = await web.call(tool, query="whales", maxResults=wanted)
    jsonschema.validate(answer, RESPONSE)
    assert answer["query"] == "whales"
    if provider == "tavily" and wanted > 20:
        assert len(answer["results"]) == 20
        assert "at most 20" in answer["notes"][0]
    else:
        assert len(answer["results"]) == wanted
    assert all(r["source"] in ("example.org", "example.net") for r in answer["results"])
    if provider == "ddg" and tool == "web_search_news":
        assert "No news provider" in answer["notes"][0]
        assert web.ddg[0].time == "w"
    if provider == "tavily":
        assert answer["results"][0]["publishedAt"] == "2026-03-02T10:00:00Z"
        key, body = web.fake.requests[0]
        assert key == "tvly-canary-1"
        assert body["topic"] == ("news" if tool == "web_search_news" else "general")


async def test_defaults_and_role(web):
    """Five results; without the role nothing."""
    await web.start()
    assert len((await web.call("web_search", query="cats"))["results"]) == 5
    for tool in ("web_search", "web_search_advanced", "web_search_news"):
        with pytest.raises(Fault) as caught:
            await web.call(tool, query="cats", roles=("OTHER",))
        assert caught.value.code == "forbidden"


async def test_filters_are_given_to_the_provider_and_kept_by_us(web):
    """Parameters at Tavily, operators elsewhere, and a check of every result."""
    await web.start(web_providers=("tavily", "ddg"), **KEYS)
    answer = await web.call(
        "web_search_advanced", query="whales", maxResults=15, timeRange="month",
        includeDomains=["https://www.Example.net/x", "*.duck3.example.org"],
        excludeDomains=["tavily1.example.net"],
    )  # fmt: skip
    _, body = web.fake.requests[0]
    assert body["include_domains"] == ["example.net", "duck3.example.org"]
    assert body["exclude_domains"] == ["tavily1.example.net"]
    assert body["time_range"] == "month"
    assert web.ddg[0].query == (
        "whales (site:example.net OR site:duck3.example.org) -site:tavily1.example.net"
    )
    assert web.ddg[0].time == "m"
    hosts = {urlsplit(r["url"]).hostname for r in answer["results"]}
    assert "duck3.example.org" in hosts
    assert all(h.endswith("example.net") or h == "duck3.example.org" for h in hosts)
    assert "tavily1.example.net" not in hosts


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"query": " "}, "invalid_query", "empty"),
        ({"query": "x" * 1001}, "invalid_query", "1000"),
        ({"query": "x", "timeRange": "decade"}, "invalid_argument", "timeRange"),
        ({"query": "x", "includeDomains": ["not a domain"]}, "invalid_argument", "includeDomains"),
        ({"query": "x", "excludeDomains": ["localhost"]}, "invalid_argument", "excludeDomains"),
        ({"query": "x", "maxResults": 26}, "invalid_argument", "maxResults"),
        ({"query": "x", "max_results": 2}, "invalid_argument", "max_results"),
    ],
)
async def test_bad_arguments_name_field_and_remedy(web, arguments, code, said):
    """Before anybody is asked."""
    await web.start()
    with pytest.raises(Fault) as caught:
        await web.call("web_search_advanced", **arguments)
    assert caught.value.code == code
    assert said in caught.value.failure.message
    assert web.ddg == []


@pytest.mark.parametrize(
    ("word", "code", "retryable", "calls"),
    [
        ("http400", "invalid_argument", False, 1),
        ("http422", "invalid_argument", False, 1),
        ("http401", "upstream_failed", False, 1),
        ("http429", "upstream_limited", True, 1),
        ("http432", "quota_exhausted", False, 1),
        ("http433", "quota_exhausted", False, 1),
        ("http500", "upstream_failed", True, 3),
        ("garbage", "upstream_failed", False, 1),
    ],
)
async def test_each_error_of_tavily_is_its_own_failure(web, word, code, retryable, calls):
    """Retried where that helps, never where the account is at fault; the key is never told."""
    await web.start(**KEYS)
    with pytest.raises(Fault) as caught:
        await web.call("web_search", query=f"whales {word}")
    failure = caught.value.failure
    assert (failure.code, failure.retryable) == (code, retryable)
    assert web.fake.calls["tavily"] == calls
    assert "canary" not in failure.message
    if word == "http429":
        assert failure.retry_after_ms == 30_000
    if word in ("http401", "http432", "http433"):
        with pytest.raises(Fault) as again:
            await web.call("web_search", query="other whales")
        assert again.value.code == "quota_exhausted"
        assert web.fake.calls["tavily"] == calls  # the breaker is open
        assert again.value.failure.retry_after_ms > 1_000_000


async def test_keys_take_turns_and_a_dead_one_is_left_out(web):
    """A refused key costs no request."""
    await web.start(tavily_api_keys=("key432", "good1", "good2"), web_cache_ttl_s=0)
    for number in range(7):
        assert (await web.call("web_search", query=f"whales {number}"))["results"]
    used = [key for key, _ in web.fake.requests]
    assert used.count("key432") == 1
    assert {used.count("good1"), used.count("good2")} <= {3, 4}


async def test_recorded_answers_and_errors_decode(reference):
    """Whatever shape Tavily gave them."""
    import msgspec

    folder = reference / "fixtures" / "tavily"
    for path in folder.glob("*search*.json"):
        answer = msgspec.json.decode(path.read_bytes(), type=tavily.SearchReply)
        assert answer.results
        assert all(row.url for row in answer.results)
    extracted = msgspec.json.decode(
        next(folder.glob("extract_*.json")).read_bytes(), type=tavily.ExtractReply
    )
    assert len(extracted.results) == 3
    codes = {400: "invalid_argument", 401: "upstream_failed", 422: "invalid_argument",
             429: "upstream_limited", 432: "quota_exhausted", 433: "quota_exhausted",
             500: "upstream_failed"}  # fmt: skip
    for path in folder.glob("*error*.json"):
        status = int(path.stem.rsplit("_", 1)[-1])
        fault = tavily.fault_of(Reply(status, path.read_bytes()))
        assert fault is not None
        assert fault.code == codes[status]
        json.dumps(fault.failure.message)
    invalid = tavily.fault_of(
        Reply(400, (folder / "real_error_extract_all_urls_invalid_400.json").read_bytes())
    )
    assert "All URLs failed validation" in invalid.failure.message


async def test_several_providers_at_once_are_fused(web):
    """Pages that several found come first; trackers and schemes make no second page."""
    await web.start(
        web_providers=("tavily", "brave", "searxng"), **KEYS, brave_api_keys=("b",),
        searxng_url=f"{web.url}/searxng",
    )  # fmt: skip
    answer = await web.call("web_search", query="whales", maxResults=10)
    urls = [r["url"] for r in answer["results"]]
    keys = [canonical_key(url) for url in urls]
    assert len(keys) == len(set(keys)) == 10
    assert all("shared.example.org" in url for url in urls[:3])
    # No host crowds out the others.
    assert sum("shared.example.org" in url for url in urls[:6]) == 3
    again = await web.call("web_search", query="whales", maxResults=10)
    assert again == answer
    assert web.fake.calls["tavily"] == 1


@pytest.mark.parametrize("word", ["http500", "slow", "garbage"])
async def test_one_failing_provider_is_named_and_the_others_answer(web, word):
    """Within the caller's time."""
    web.fake.calls.clear()
    await web.start(web_providers=("tavily", "ddg"), **KEYS)
    answer = await web.call("web_search", query=f"whales {word}", timeout_s=4.0)
    assert len(answer["results"]) == 5
    assert any(note.startswith("tavily failed (") for note in answer["notes"])


async def test_old_results_are_labelled_while_the_provider_fails(web):
    """And a fresh stack has none."""
    await web.start(**KEYS, web_cache_ttl_s=0)
    fresh = await web.call("web_search", query="whales")
    web.fake.latency_s = 60
    stale = await web.call("web_search", query="whales", timeout_s=3.0)
    assert stale["results"] == fresh["results"]
    assert "from before" in stale["notes"][0]


async def test_equal_searches_at_once_cost_one_credit(web):
    """Whoever asks."""
    web.fake.latency_s = 0.3
    await web.start(**KEYS)
    await asyncio.gather(*(web.call("web_search", query="whales") for _ in range(40)))
    assert web.fake.calls["tavily"] == 1


async def test_known_limit_is_kept_over_replicas(web):
    """Two replicas, three times the limit: most calls are worth their slot, who cannot wait hears it."""
    web.fake.limit_per_s = 20.0
    for _ in range(2):
        await web.start(**KEYS, tavily_rpm=20 * 60, web_cache_ttl_s=0)
    outcomes: list[str] = []

    async def ask(number: int) -> None:
        try:
            await web.call("web_search", query=f"whales {number}", timeout_s=2.0)
            outcomes.append("ok")
        except Fault as fault:
            outcomes.append(fault.code)

    tasks = []
    for number in range(240):  # four seconds at sixty a second
        tasks.append(asyncio.create_task(ask(number)))
        await asyncio.sleep(1 / 60)
    await asyncio.gather(*tasks)
    # Unpaced it would be two thirds; how much less than this it is `make bench` measures.
    assert web.fake.calls["tavily-429"] <= 0.25 * web.fake.calls["tavily"]
    assert outcomes.count("ok") >= 50
    assert set(outcomes) <= {"ok", "rate_limited", "overloaded", "upstream_limited"}


def test_settings_name_what_is_missing():
    """A provider without its key is no provider."""
    with pytest.raises(ValueError, match="SEARCHBUS_TAVILY_API_KEYS"):
        WebSettings(web_providers=("tavily",))
    assert WebSettings().providers == ("ddg",)
    assert WebSettings(brave_api_keys=("x",)).providers == ("brave",)
    assert "secret" not in repr(WebSettings(tavily_api_keys=("secret",)))


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("Mon, 02 Mar 2026 10:00:00 GMT", "2026-03-02T10:00:00Z"),
        ("2026-03-02T10:00:00+02:00", "2026-03-02T08:00:00Z"),
        ("2026-03-02", "2026-03-02"), ("2026-03-02T10:00:00.000", "2026-03-02T10:00:00Z"),
        (1772445600, "2026-03-02T10:00:00Z"), ("yesterday", None), ("", None), (None, None),
        (True, None), ("2026-13-40", None), (1e20, None),
    ],
)  # fmt: skip
def test_dates_become_iso(value, iso):
    """Or are left out."""
    assert iso_date(value) == iso


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://www.a.org/x/?utm_source=1&b=2&a=1#top", "https://a.org/x?a=1&b=2"),
        ("https://m.a.org:443/x/../y/index.html", "http://a.org/y"),
        ("https://a.org/%7Euser", "https://a.org/~user"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example"),
        ("https://a.org/story/amp", "https://a.org/story"),
    ],
)
def test_spellings_of_one_address_are_one_page(one, other):
    """For merging only: what is shown is the provider's URL."""
    assert canonical_key(one) == canonical_key(other)


def test_different_pages_stay_different():
    """Path, query and port tell them apart."""
    urls = ["https://a.org/x", "https://a.org/X", "https://a.org/x?id=1", "https://a.org/x?id=2",
            "https://a.org:8443/x", "https://b.org/x", "https://a.org/x?ref=2"]  # fmt: skip
    assert len({canonical_key(url) for url in urls}) == len(urls)


def test_registrable_domains():
    """By the Public Suffix List."""
    assert registrable_domain("news.bbc.co.uk") == "bbc.co.uk"
    assert registrable_domain("www.example.org") == "example.org"
    assert registrable_domain("8.8.8.8") == "8.8.8.8"


def row(url: str, title: str = "t", snippet: str = "") -> Result:
    return Result(title, url, snippet)


def test_one_index_has_one_vote():
    """Two providers that draw on the same index are no two witnesses."""
    lists = {
        "ddg": [row("http://a.org/"), row("http://b.org/")],
        "bing": [row("http://a.org/"), row("http://c.org/")],
        "brave": [row("http://b.org/")],
    }
    ranked = fuse(
        lists, groups={"ddg": "bing", "bing": "bing", "brave": "brave"}, weights={}, limit=9
    )
    assert [r.url for r in ranked][0] == "http://b.org/"


def test_near_duplicates_are_merged_with_the_longer_text():
    """A copied article counts for the first place it was found."""
    text = (
        "The committee decided today to raise the target range by a quarter point and said that "
        * 2
    )
    ranked = fuse(
        {"a": [row("http://a.org/1", "Rates up", text)], "b": [row("http://copy.net/9", "Rates up", text + "more")]},
        groups={}, weights={}, limit=9,
    )  # fmt: skip
    assert [r.url for r in ranked] == ["http://a.org/1"]
    assert ranked[0].snippet.endswith("more")


async def test_key_that_rested_is_tried_once_and_welcomed_back():
    """After the rest one request decides; while it is under way no other uses the key."""
    statuses = [401, "hang", 200, 200]
    now_s = [1000.0]
    under_way = asyncio.Event()

    class Upstream:
        async def send(self, request, **options):
            status = statuses.pop(0)
            if status == "hang":
                under_way.set()
                await asyncio.sleep(options["timeout_s"])  # no time for a second attempt
                raise UpstreamTimeout("late")
            return Reply(status, b"{}")

        async def close(self):
            pass

    def fault_of(reply):
        return None if reply.status == 200 else Fault("upstream_failed", "no", retryable=False)

    account = Account("Test", Upstream(), ["k"], fault_of=fault_of)
    breaker = account._keys[0].breaker
    breaker._clock = lambda: now_s[0]

    async def call(timeout_s=0.5):
        return await account.call(lambda key: Request("GET", "http://x"), dict, timeout_s=timeout_s)

    with pytest.raises(Fault):
        await call()
    assert not account.usable
    with pytest.raises(Fault) as resting:
        await call()
    assert resting.value.code == "quota_exhausted"
    now_s[0] += 3601
    assert account.usable
    probe = asyncio.create_task(call(0.3))
    await under_way.wait()
    assert not account.usable
    with pytest.raises(Fault):
        await probe
    assert account.usable  # a time-out told nothing of the key
    assert await call() == {}
    assert breaker.closed
