"""Requests of SearXNG's search API (https://docs.searxng.org/dev/search_api.html).

    request = read_search({"q": "whales", "format": "json", "pageno": "2"})

Values are checked as SearXNG checks them, and unknown parameters are ignored as there. What a known
parameter asks for and the tools do not do is in `notes` of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from searchbus_contracts import ErrorCode, Fault

__all__ = ["CATEGORIES", "Search", "read_search"]

CATEGORIES = {"general": "web_search_advanced", "news": "web_search_news"}
"""Category → the tool of the toolset web that answers it."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-zA-Z]{2})?")
_ANY_LANGUAGE = ("", "all", "auto")
_TIME_RANGES = {"": "", "None": "", "day": "d", "week": "w", "month": "m", "year": "y"}
_MAX_DIGITS = 9
_MOST_NAMES = 10


class Search(Struct, frozen=True, kw_only=True):
    """One search.

    Args:
        time_range: `d`, `w`, `m`, `y`, or empty.
        engines: names that the request asks for; all providers answer, whichever it names.
        timeout_s: `timeout_limit`; None where the request has none.
        notes: what is not done as asked.
    """

    query: str
    page: int = 1
    categories: tuple[str, ...] = ("general",)
    time_range: str = ""
    engines: tuple[str, ...] = ()
    timeout_s: float | None = None
    notes: tuple[str, ...] = ()


def read_search(form: Mapping[str, str]) -> Search:
    """The search that the parameters of a request describe.

    Raises:
        Fault: forbidden for a format other than JSON, invalid_argument for a wrong value.
    """
    if form.get("format", "html") != "json":
        raise Fault(ErrorCode.FORBIDDEN, "Only format=json is allowed. Send it.")
    if not form.get("q"):
        raise Fault(ErrorCode.INVALID_ARGUMENT, "No query")
    categories, unknown = _categories(form)
    notes = []
    if unknown:
        notes.append(f"No such categories here, ignored: {_listed(unknown)}.")
    language = form.get("language", "")
    if language not in _ANY_LANGUAGE:
        if not _LANGUAGE.fullmatch(language):
            raise _invalid("language", language)
        notes.append(f"language={language} is not applied: results are of any language.")
    safesearch = form.get("safesearch", "0")
    if safesearch not in ("0", "1", "2"):
        raise _invalid("safesearch", safesearch)
    if safesearch != "0":
        notes.append(f"safesearch={safesearch} is not applied: each provider has its own default.")
    engines = tuple(_split(form.get("engines", "")))
    if engines:
        notes.append("engines is not applied: all providers answer.")
    time_range = _TIME_RANGES.get(form.get("time_range", ""))
    if time_range is None:
        raise _invalid("time_range", form["time_range"])
    return Search(
        query=form["q"],
        page=_page(form.get("pageno", "1")),
        categories=categories,
        time_range=time_range,
        engines=engines,
        timeout_s=_timeout_s(form.get("timeout_limit", "")),
        notes=tuple(notes),
    )


def _categories(form: Mapping[str, str]) -> tuple[tuple[str, ...], list[str]]:
    """Those that there are, general where there is none; and those that are not known."""
    chosen: dict[str, bool] = {}
    for name, value in form.items():
        if name == "categories":
            chosen |= dict.fromkeys(_split(value), True)
        elif name.startswith("category_"):
            chosen[name.removeprefix("category_")] = value != "off"
    wanted = [name for name, on in chosen.items() if on]
    known = tuple(name for name in wanted if name in CATEGORIES)
    return known or ("general",), [name for name in wanted if name not in CATEGORIES]


def _page(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= _MAX_DIGITS) or int(given) < 1:
        raise _invalid("pageno", given)
    return int(given)


def _timeout_s(given: str) -> float | None:
    if given in ("", "None"):
        return None
    try:
        timeout_s = float(given)
    except ValueError:
        raise _invalid("timeout_limit", given) from None
    if not timeout_s > 0:  # nor is NaN
        raise _invalid("timeout_limit", given)
    return timeout_s


def _split(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name[:40] for name in names[:_MOST_NAMES])


def _invalid(name: str, value: str) -> Fault:
    """SearXNG's own words."""
    what = f'Invalid value "{value[:80]}" for parameter {name}' if value else f"Empty {name}"
    return Fault(ErrorCode.INVALID_ARGUMENT, what)
