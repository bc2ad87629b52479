"""Requests of Tavily's API (https://docs.tavily.com), and what the tools do with them.

A parameter that would change which results come, and that the tools do not have, is refused; one
that only adds to them is named in the answer's `notes`. docs/http.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.codec import worded

from .web_tools import NEWS, SEARCH, FoundPage

MAX_RESULTS = 20
MAX_URLS = 20
_MOST_NAMES = 10
_RANGES = (("d", 1), ("w", 7), ("m", 31), ("y", 366))
_NOT_PARAMETERS = frozenset({"api_key"})
T = TypeVar("T", bound=Struct)


class TavilySearch(Struct, frozen=True, kw_only=True):
    """Body of POST /search."""

    query: str
    search_depth: Literal["basic", "advanced", "fast", "ultra-fast"] = "basic"
    topic: Literal["general", "news", "finance"] = "general"
    max_results: Annotated[int, Meta(ge=0, le=MAX_RESULTS)] = 5
    chunks_per_source: Annotated[int, Meta(ge=1, le=3)] = 3
    time_range: Literal["day", "week", "month", "year", "d", "w", "m", "y"] | None = None
    days: Annotated[int, Meta(ge=1)] | None = None
    start_date: date | None = None
    end_date: date | None = None
    include_answer: bool | Literal["basic", "advanced"] = False
    include_raw_content: bool | Literal["markdown", "text"] = False
    include_domains: list[str] = []
    exclude_domains: list[str] = []
    include_domains_mode: Literal["filter", "restrict", "boost", "prefer"] = "filter"
    include_images: bool = False
    include_image_descriptions: bool = False
    include_favicon: bool = False
    include_usage: bool = False
    country: str = ""
    language: str = ""
    auto_parameters: bool = False
    exact_match: bool = False
    filter_by_language: bool = False
    safe_search: bool = False

    @property
    def reads_pages(self) -> bool:
        """Whether the answer has text of the pages themselves."""
        return bool(self.include_raw_content) or self.search_depth == "advanced"


class TavilyExtract(Struct, frozen=True, kw_only=True):
    """Body of POST /extract."""

    urls: str | list[str]
    query: str = ""
    chunks_per_source: Annotated[int, Meta(ge=1, le=5)] = 3
    extract_depth: Literal["basic", "advanced"] = "basic"
    format: Literal["markdown", "text"] = "markdown"
    timeout: Annotated[float, Meta(ge=1, le=60)] | None = None
    include_images: bool = False
    include_favicon: bool = False
    include_usage: bool = False

    @property
    def url_list(self) -> list[str]:
        """The URLs, also of a request with one."""
        return [self.urls] if isinstance(self.urls, str) else self.urls

    @property
    def timeout_s(self) -> float:
        """As Tavily has it where the request names none: 10 s, and 30 s for advanced."""
        return self.timeout or (30.0 if self.extract_depth == "advanced" else 10.0)


class NamedPeriod(Struct, frozen=True):
    """The days, both included, of which results are asked for; None is without a bound. Tavily
    names days, the tools have ranges, which count from `today` in UTC."""

    first: date | None
    last: date | None
    today: date

    @classmethod
    def of(
        cls,
        *,
        today: date,
        days: int | None = None,
        first: date | None = None,
        last: date | None = None,
    ) -> NamedPeriod:
        """The period of the last days, or from one day to another."""
        if days is not None:
            earliest = today - timedelta(days=min(days, (today - date.min).days))
            first = earliest if first is None else max(first, earliest)
        return cls(first, last, today)

    @property
    def bounded(self) -> bool:
        """Whether it leaves out any day."""
        return self.first is not None or self.last is not None

    @property
    def time_range(self) -> str | None:
        """The shortest `timeRange` of the tools that covers it; None where none does."""
        if self.first is None:
            return None
        age_days = (self.today - self.first).days
        return next((letter for letter, days in _RANGES if age_days <= days), None)

    def keep(self, rows: Sequence[FoundPage]) -> tuple[list[FoundPage], list[str]]:
        """The rows of the period, undated ones only without others; notes on what is left out."""
        if not self.bounded:
            return list(rows), []
        undated = [row for row in rows if row.published_at is None]
        kept = [row for row in rows if self._holds(row)]
        notes = []
        other = len(rows) - len(undated) - len(kept)
        if other:
            notes.append(f"Results of other days were left out: {other}.")
        if kept and undated:
            notes.append(f"Results without a date were left out: {len(undated)}.")
        elif undated:
            notes.append("No result has a date: they may be of other days.")
        return kept or undated, notes

    def _holds(self, row: FoundPage) -> bool:
        if row.published_at is None:
            return False
        day = date.fromisoformat(row.published_at[:10])
        return (self.first is None or day >= self.first) and (self.last is None or day <= self.last)


class SearchPlan(Struct, frozen=True):
    """How a search is answered.

    Args:
        tool, arguments: of the toolset web.
        period: whose results are kept afterwards.
        notes: what is not done as asked.
    """

    tool: str
    arguments: dict[str, Any]
    period: NamedPeriod
    notes: tuple[str, ...] = ()


def read_search(body: Mapping[str, Any]) -> tuple[TavilySearch, list[str]]:
    """The request, and notes on what is not applied; raises Fault(invalid_argument)."""
    request, notes = _read(body, TavilySearch)
    _refuse(request.topic == "finance", "topic", "'finance' is not supported. Use 'general'.")
    _refuse(
        request.exact_match, "exact_match", "is not supported. Put the phrase in quotation marks."
    )
    _refuse(request.filter_by_language, "filter_by_language", "is not supported. Leave it out.")
    _refuse(request.safe_search, "safe_search", "is not supported. Leave it out.")
    _refuse(
        request.include_domains_mode in ("boost", "prefer") and bool(request.include_domains),
        "include_domains_mode",
        "must be 'filter': results of other domains are always left out.",
    )
    dated = request.start_date is not None or request.end_date is not None
    _refuse(
        request.time_range is not None and dated,
        "time_range",
        "cannot be set together with start_date or end_date. Leave one of them out.",
    )
    _refuse(
        request.start_date is not None
        and request.end_date is not None
        and request.start_date > request.end_date,
        "start_date",
        "must not be after end_date.",
    )
    if request.include_answer:
        notes.append("include_answer: no language model writes answers here; answer is null.")
    if request.include_raw_content == "text":
        notes.append("include_raw_content: raw_content is Markdown.")
    unapplied = ("include_images", "include_image_descriptions", "include_favicon", "country",
                 "language", "auto_parameters")  # fmt: skip
    return request, notes + _unapplied(request, unapplied)


def read_extract(body: Mapping[str, Any]) -> tuple[TavilyExtract, list[str]]:
    """The request, and notes on what is not applied; raises Fault(invalid_argument)."""
    request, notes = _read(body, TavilyExtract)
    count = len(request.url_list)
    _refuse(not 1 <= count <= MAX_URLS, "urls", f"must have 1 to {MAX_URLS} URLs, not {count}.")
    if request.format == "text":
        notes.append("format: raw_content is Markdown.")
    return request, notes + _unapplied(request, ("include_images", "include_favicon"))


def plan_search(request: TavilySearch, today: date) -> SearchPlan:
    """The tool that answers, and its arguments."""
    days, first, last = request.days, request.start_date, request.end_date
    period = NamedPeriod.of(today=today, days=days, first=first, last=last)
    time_range = request.time_range[0] if request.time_range else period.time_range
    domains = request.include_domains or request.exclude_domains
    news = request.topic == "news" and not domains
    # What is left out afterwards must not shorten the answer.
    most = MAX_RESULTS if period.bounded else max(1, request.max_results)
    arguments: dict[str, Any] = {"query": request.query, "maxResults": most}
    if time_range:
        arguments["timeRange"] = time_range
    if request.include_domains:
        arguments["includeDomains"] = request.include_domains
    if request.exclude_domains:
        arguments["excludeDomains"] = request.exclude_domains
    notes: tuple[str, ...] = ()
    if request.topic == "news" and domains:
        notes = ("topic: the search of news has no domains; the web was searched with them.",)
    return SearchPlan(NEWS if news else SEARCH, arguments, period, notes)


def _read(body: Mapping[str, Any], kind: type[T]) -> tuple[T, list[str]]:
    """The request; parameters without a value count as not given, unknown ones are named."""
    given = {name: value for name, value in body.items() if value is not None}
    known = set(kind.__struct_fields__)
    unknown = [name for name in given if name not in known | _NOT_PARAMETERS]
    try:
        request = msgspec.convert({n: v for n, v in given.items() if n in known}, kind)
    except msgspec.ValidationError as error:
        raise Fault(ErrorCode.INVALID_ARGUMENT, f"Invalid request: {worded(error, kind)}") from None
    if not unknown:
        return request, []
    names = ", ".join(name[:40] for name in unknown[:_MOST_NAMES])
    return request, [f"Not known here and not applied: {names}."]


def _refuse(wrong: bool, parameter: str, why: str) -> None:
    if wrong:
        raise Fault(ErrorCode.INVALID_ARGUMENT, f"Invalid {parameter}: {parameter} {why}")


def _unapplied(request: Struct, names: tuple[str, ...]) -> list[str]:
    asked = [name for name in names if getattr(request, name)]
    return [f"Not applied: {', '.join(asked)}."] if asked else []
