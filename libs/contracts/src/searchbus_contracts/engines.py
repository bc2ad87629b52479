"""Search engines that need no key: what each can do, its terms, and their messages (§12.5).

The service ddg sends their requests, each engine at a pace of its own from each egress address. The
service web fuses their results. An engine's request and parser are a class of
searchbus_ddg/engines/known.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta, Struct

from .codec import doc

Filter = Literal["region", "language", "safe", "time", "domains"]
Topic = Literal["general", "news"]
Safe = Literal["", "off", "moderate", "strict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine can do.

    Args:
        kind: api: an interface for programs; page: its result page for people.
        group: engines of one group use the same index and have one vote.
        weight: of its vote in the fusion.
        filters: what it can be asked for; `domains` are operators such as site:example.org.
        max_pages: pages of results that it gives for one query.
        on: whether it is used unless the operator chooses the engines.
        terms: what its operator asks of programs, in a sentence for people.
    """

    name: str
    title: str
    kind: Literal["api", "page"]
    group: str
    filters: tuple[Filter, ...]
    max_pages: int
    terms: str
    weight: float = 0.8
    topic: Topic = "general"
    on: bool = True


_ASKS_NOT_TO = "Its robots.txt asks programs not to read its result pages: keep the amounts small."

ENGINES: dict[str, EngineFacts] = {
    facts.name: facts
    for facts in (
        EngineFacts(
            name="ddg", title="DuckDuckGo", kind="page", group="bing", max_pages=3,
            filters=("region", "language", "safe", "time", "domains"), terms=_ASKS_NOT_TO,
        ),
        EngineFacts(
            name="ddg_news", title="DuckDuckGo News", kind="page", group="bing", max_pages=5,
            filters=("region", "language", "safe", "time"), topic="news", terms=_ASKS_NOT_TO,
        ),
        EngineFacts(
            name="wikipedia", title="Wikipedia", kind="api", group="wikipedia", max_pages=10,
            filters=("language",), weight=0.6,
            terms="An open interface; texts are CC BY-SA. Programs name themselves in User-Agent "
            "and send one request at a time (https://foundation.wikimedia.org/wiki/Policy:User-Agent_policy).",
        ),
        EngineFacts(
            name="marginalia", title="Marginalia Search", kind="api", group="marginalia",
            max_pages=10, filters=("safe", "domains"), weight=0.6,
            terms="An open interface; its key `public` is limited for all users together. "
            "Results are CC BY-NC-SA 4.0 (https://about.marginalia-search.com/article/api/).",
        ),
        EngineFacts(
            name="mojeek", title="Mojeek", kind="page", group="mojeek", max_pages=10,
            filters=("region", "language", "safe", "time", "domains"), weight=0.7, on=False,
            terms=f"{_ASKS_NOT_TO} It sells an API.",
        ),
        EngineFacts(
            name="brave_page", title="Brave's page", kind="page", group="brave", max_pages=10,
            filters=("region", "safe", "time", "domains"), weight=0.9, on=False,
            terms=f"{_ASKS_NOT_TO} It sells an API, the provider brave.",
        ),
    )
}  # fmt: skip
"""The engines by name, most important first."""


class EngineRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of results of one engine."""

    engine: Annotated[str, doc("A name of the table, except ddg, which has `ddg.search`.")]
    query: Annotated[str, doc("1 to 499 characters, else invalid_query.")]
    page: Annotated[int, Meta(ge=1, le=10)] = 1
    region: Annotated[
        str, doc("Two letters of ISO 3166-1, small; empty: any.", pattern=r"^([a-z]{2})?$")
    ] = ""
    language: Annotated[
        str, doc("Two or three letters of ISO 639; empty: any.", pattern=r"^([a-z]{2,3})?$")
    ] = ""
    time: Annotated[
        Literal["", "d", "w", "m", "y"], doc("Not older than a day, week, month, year.")
    ] = ""
    safe: Safe = ""


class EngineStatesRequest(Struct, frozen=True):
    """The states of all engines."""


class EngineState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one engine at one egress address."""

    engine: str
    # A plain string on the wire, so that the state of a newer peer still decodes.
    state: Annotated[
        str,
        doc(
            "unused: no request yet; ready; failed: the last request; cooling: refused, not asked."
        ),
    ]
    outcome: Annotated[str, doc("What the last request came to, e.g. ok, empty, challenge.")] = ""
    used_ms: Annotated[int, doc("When that was, in milliseconds of the epoch; 0: never.")] = 0
    retry_after_ms: Annotated[int, doc("While cooling.")] = 0


class EngineStatesReply(Struct, frozen=True):
    """The states, of the egress address of the worker that replies."""

    engines: tuple[EngineState, ...]


_REGIONS = (
    "us-en uk-en au-en ca-en ca-fr ie-en in-en nz-en ph-en sg-en za-en de-de at-de ch-de "
    "ch-fr ch-it fr-fr be-nl be-fr nl-nl it-it es-es mx-es ar-es cl-es co-es pe-es pt-pt "
    "br-pt se-sv dk-da no-no fi-fi pl-pl cz-cs sk-sk sl-sl hr-hr hu-hu ro-ro bg-bg gr-el "
    "tr-tr ru-ru ua-uk ee-et lv-lv lt-lt il-he xa-ar id-id my-ms my-en th-th vn-vi jp-jp "
    "kr-kr cn-zh hk-tzh tw-tzh"
).split()
"""DuckDuckGo's regions (`kl`), the main one of a country and of a language first."""
_OWN_CODES = {"gb": "uk", "ja": "jp", "ko": "kr"}


def ddg_region(country: str, language: str) -> str:
    """DuckDuckGo's `kl` for a country (ISO 3166-1) and a language (ISO 639-1).

    Either may be empty; a pair that it does not have is that of the country.

        ddg_region("gb", "")       # uk-en
        ddg_region("ch", "fr")     # ch-fr
        ddg_region("", "ja")       # jp-jp
        ddg_region("", "")         # wt-wt: anywhere
    """
    country = _OWN_CODES.get(country, country)
    spoken = _OWN_CODES.get(language, language)
    of_country = [kl for kl in _REGIONS if country and kl.startswith(f"{country}-")]
    of_both = [kl for kl in of_country or _REGIONS if spoken and kl.endswith(spoken)]
    if country and not of_country:
        return "wt-wt"
    return next(iter(of_both or of_country), "wt-wt")
