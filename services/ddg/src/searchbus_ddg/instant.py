"""Parser of the Instant Answer API.

Depending on the kind of answer, a field is absent, an empty string, a number or an object; the
content type is JavaScript. A field that cannot be read is left out and fails nothing.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from searchbus_upstream import HttpReply, is_public_url, read_json

from .outcome import EngineError, Outcome

_SITE = "https://duckduckgo.com/"
# Each match ends at the next beginning of one: no character is read again for every match.
_LINK = re.compile(r"<a\b[^<>]*>((?:(?!<a\b).)*?)</a>", re.I | re.S)
_NO_TEXT_ELEMENT = re.compile(r"<(style|script)\b(?:(?!<\1\b).)*?</\1\s*>", re.I | re.S)
_TAG = re.compile(r"<[^<>]+>")
_MAY_REFER = re.compile(r"\b(may|can|could) (also )?refer to\b:?\s*$|\bmay refer to\b", re.I)
_FIELDS = {"Type", "AbstractText", "Abstract", "Answer", "RelatedTopics", "Results", "Redirect"}
"""An answer has at least one of them, be it empty."""
_NOT_TEXT = {"color_code", "minesweeper"}
"""Answer types whose Answer is a script of the site."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A related topic: its title, a description, and the page about it."""

    title: str
    about: str = ""
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Topics under a heading; the heading is empty for topics without one."""

    name: str
    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class InstantAnswer:
    """The parsed answer; missing parts are empty strings and tuples."""

    heading: str = ""
    abstract: str = ""
    abstract_source: str = ""
    abstract_url: str | None = None
    answer: str = ""
    definition: str = ""
    definition_source: str = ""
    definition_url: str | None = None
    redirect: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    results: tuple[Topic, ...] = ()
    groups: tuple[Group, ...] = field(default=())
    disambiguation: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        shown = (self.abstract, self.answer, self.definition, self.redirect, self.facts)
        return not any((*shown, self.results, self.groups))


def decode_instant(reply: HttpReply) -> InstantAnswer:
    """Parse a reply; raises EngineError: the status is an error, or the body is not an answer."""
    if reply.status in (202, 403, 429) and not reply.body.strip().startswith(b"{"):
        raise EngineError(Outcome.RATE_LIMITED, f"it limits this address (HTTP {reply.status})")
    if reply.status >= 400:
        raise EngineError(Outcome.UPSTREAM_ERROR, f"it answers HTTP {reply.status}")
    try:
        raw: object = read_json(reply.body, Any)
    except (ValueError, RecursionError):
        what = "was cut off" if reply.truncated else "is not JSON"
        raise EngineError(Outcome.UNKNOWN_MARKUP, f"its answer {what}") from None
    if not isinstance(raw, dict):
        raise EngineError(Outcome.UNKNOWN_MARKUP, "its answer is not a JSON object")
    if not _FIELDS & raw.keys():
        raise EngineError(Outcome.UNKNOWN_MARKUP, "its answer has none of the known fields")
    abstract = _text(raw.get("AbstractText")) or _text(raw.get("Abstract"))
    kind = _text(raw.get("Type"))
    refers = bool(_MAY_REFER.search(abstract[-120:])) and len(abstract) < 200
    return InstantAnswer(
        heading=_text(raw.get("Heading")),
        abstract="" if refers else abstract,
        abstract_source=_text(raw.get("AbstractSource")),
        abstract_url=_url(raw.get("AbstractURL")),
        answer=_answer(raw),
        definition=_text(raw.get("Definition")),
        definition_source=_text(raw.get("DefinitionSource")),
        definition_url=_url(raw.get("DefinitionURL")),
        redirect=_url(raw.get("Redirect")),
        facts=tuple(_facts(raw.get("Infobox"))),
        results=tuple(_topics(raw.get("Results"))),
        groups=tuple(_groups(raw.get("RelatedTopics"))),
        disambiguation=kind == "D" or refers,
    )


def _text(value: Any) -> str:
    """Text of a field without tags; line breaks are kept."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    markup = _NO_TEXT_ELEMENT.sub("", str(value)).replace("<br>", "\n")
    text = html.unescape(_TAG.sub("", markup))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def _url(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    try:
        url = urljoin(_SITE, value.strip())
    except ValueError:
        return None
    return url if is_public_url(url) else None


def _answer(raw: dict[str, Any]) -> str:
    value = raw.get("Answer")
    if _text(raw.get("AnswerType")) in _NOT_TEXT:
        return ""
    if isinstance(value, dict):  # {"from": …, "result": …} of some answer types
        texts = (_text(value.get(name)) for name in ("result", "answer"))
        return next(filter(None, texts), "")
    return _text(value)


def _facts(infobox: Any) -> list[tuple[str, str]]:
    content = infobox.get("content") if isinstance(infobox, dict) else None
    found: list[tuple[int, str, str]] = []
    for number, item in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(item, dict):
            continue
        label, value = _text(item.get("label")), _fact(item.get("value"))
        if label and value:
            order = str(item.get("wiki_order"))
            place = int(order) if re.fullmatch(r"-?\d{1,6}", order) else number
            found.append((place, label, value))
    return [(label, value) for _, label, value in sorted(found, key=lambda fact: fact[0])]


def _fact(value: Any) -> str:
    """Text of an infobox value: a string, or an object of a known shape."""
    if isinstance(value, dict):
        if "amount" in value:
            return f"{_text(value['amount'])} {_text(value.get('unit'))}".strip()
        if "latitude" in value and "longitude" in value:
            return f"{_text(value['latitude'])}, {_text(value['longitude'])}"
        # Other objects hold ids of Wikidata, which mean nothing to a reader.
        keys = ("name", "text", "label", "time")
        return next((text for key in keys if (text := _text(value.get(key)))), "")
    if isinstance(value, list):
        return ", ".join(filter(None, map(_fact, value)))
    return _text(value).replace("\n", ", ")


def _groups(value: Any) -> list[Group]:
    alone: list[Any] = []
    named: list[Group] = []
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and isinstance(item.get("Topics"), list):
            topics = tuple(_topics(item["Topics"]))
            if topics:
                named.append(Group(_text(item.get("Name")), topics))
        else:
            alone.append(item)
    topics = tuple(_topics(alone))
    return ([Group("", topics)] if topics else []) + named


def _topics(value: Any) -> list[Topic]:
    found: dict[tuple[str, str], Topic] = {}
    for item in value if isinstance(value, list) else ():
        if not isinstance(item, dict):
            continue
        topic = _topic(item)
        if topic is not None:
            found.setdefault((topic.title, topic.about), topic)
    return list(found.values())


def _topic(item: dict[str, Any]) -> Topic | None:
    text = _text(item.get("Text")).replace("\n", " ")
    link = _LINK.search(item["Result"]) if isinstance(item.get("Result"), str) else None
    title = _text(link[1]).replace("\n", " ") if link is not None else ""
    url = _url(item.get("FirstURL"))
    if text.startswith(("http://", "https://")) and " " in text:
        return None  # a known fault of the API: a URL joined to other text
    if not title:
        # Without a link the dash in the text separates the title.
        title, dash, about = text.partition(" - ")
        return Topic(title, about if dash else "", url) if title else None
    if title.endswith(" Category") or (url or "").startswith(f"{_SITE}c/"):
        return None  # a category page of the site, not a topic
    about = text.removeprefix(title).lstrip()
    if about.startswith(("- ", "– ", "— ", ": ")):
        about = about[2:].lstrip()
    return Topic(title, about, url)
