"""Fills a JSON Schema from the facts of a page, without a model; each field says where it is from.

    filled = fill(facts, schema)
    filled.data       # {"name": "Okapi", "price": 19.9}
    filled.sources    # {"/name": "json-ld Product.name", "/price": "json-ld Product.offers.price"}

A property is looked up by its name, without case and punctuation, then by other names of the same
thing (`_OTHER_NAMES`); first in the objects of the page, the likeliest one first, then in its meta
elements, then deeper in the objects. A value is taken only if it can be read as the property's type
and its limits hold. What is not found is left out: nothing is guessed, and nothing is made up.

A schema that refers to itself ends with the page's own depth, and at MAX_DEPTH. It runs in the
processes that parse pages: a pattern that takes without end costs that process only.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec

from searchbus_contracts.schemas import resolved
from searchbus_contracts.visible import visible
from searchbus_upstream.text import inert, plain

from .facts import Facts, joined

MAX_DEPTH = 8
MAX_ITEMS = 200
MAX_FIELDS = 5_000
_MAX_CHOICES = 20
_MAX_DEEP = 300
"""Objects that are looked through for one property."""
_MAX_PROBLEMS = 10
_OTHER_NAMES = {
    name: names
    for group in (
        ("title", "headline", "name"), ("name", "headline", "title"),
        ("headline", "title", "name"), ("description", "abstract", "summary"),
        ("summary", "abstract", "description"), ("author", "creator", "byline"),
        ("authors", "author", "creator"),
        ("date", "datepublished", "publishedtime", "datecreated", "startdate"),
        ("published", "datepublished", "publishedtime", "date"),
        ("publishedat", "datepublished", "publishedtime", "date"),
        ("datepublished", "publishedtime", "published", "date"),
        ("updated", "datemodified", "modifiedtime"), ("modified", "datemodified", "modifiedtime"),
        ("datemodified", "modifiedtime", "updatedtime"), ("price", "priceamount", "lowprice"),
        ("currency", "pricecurrency"), ("image", "thumbnailurl", "photo"),
        ("url", "canonical", "mainentityofpage"), ("rating", "ratingvalue", "aggregaterating"),
        ("reviewcount", "ratingcount"), ("reviews", "review", "reviewcount"),
        ("publisher", "sitename"), ("site", "sitename", "publisher"),
        ("language", "inlanguage", "locale"), ("tags", "keywords"), ("keywords", "tags"),
        ("ingredients", "recipeingredient"), ("instructions", "recipeinstructions"),
        ("phone", "telephone"), ("email", "mail"),
    )
    for name, *names in [group]
}  # fmt: skip
"""What else a thing is called in schema.org, Open Graph and tables."""
_PREFIX = re.compile(r"^(?:og|article|product|twitter|schema|book|profile|dc|dcterms):", re.I)
_NUMBER = re.compile(r"[-+]?\d[\d.,\u00a0\u202f' ]*")
_INSIDE = ("@value", "name", "value", "text", "url", "@id", "ratingValue", "price")
"""Where an object has its value, if a plain value is wanted."""
_MAX_NUMBER_CHARS = 60
_LIMITS = (
    "enum", "const", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format",
)  # fmt: skip


class Filled(msgspec.Struct):
    """The data of a page.

    Args:
        sources: JSON Pointer of each value → where it is from.
        missing: pointers of the required properties that the page does not state.
        valid: whether the data fits the schema.
        problems: why not, the first ones.
    """

    data: Any
    sources: dict[str, str] = {}
    missing: list[str] = []
    valid: bool = True
    problems: list[str] = []


class _Place(NamedTuple):
    """An object and where it is from, in words."""

    origin: str
    value: dict[str, Any]


class NothingFoundError(Exception):
    """The page has no value of the wanted type."""


def fill(facts: Facts, schema: dict[str, Any], url: str) -> Filled:
    """The data that the facts of a page have for a schema."""
    return _Filler(facts, schema, url).run()


class _Filler:
    def __init__(self, facts: Facts, schema: dict[str, Any], url: str) -> None:
        self._facts = facts
        self._root = schema
        self._url = url
        self._left = MAX_FIELDS
        self._sources: dict[str, str] = {}
        self._missing: list[str] = []

    def run(self) -> Filled:
        schema = self._schema(self._root)
        places = self._places(schema)
        data: Any = None
        try:
            if "array" in _types(schema):
                data = self._objects(schema, "", "", 0)
            else:
                data = self._object(schema, places, "", 0)
        except NothingFoundError:
            data = [] if "array" in _types(schema) else {}
        filled = Filled(data, self._sources, self._missing)
        try:
            errors = islice(_validator(self._root).iter_errors(data), _MAX_PROBLEMS)
            filled.problems = [
                f"{'/'.join(['', *map(str, error.instance_path)]) or '/'}: {error.message}"[:300]
                for error in errors
            ]
        except ValueError as error:
            filled.problems = [f"The schema cannot be used: {error}"[:300]]
        filled.valid = not filled.problems
        return filled

    def _schema(self, schema: Any, depth: int = 0) -> dict[str, Any]:
        """A schema with its reference followed."""
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and depth < MAX_DEPTH:
            return self._schema(resolved(reference, self._root), depth + 1)
        return schema

    def _places(self, schema: dict[str, Any]) -> list[_Place]:
        """The objects of the page, the likeliest first, then its meta elements."""
        wanted = {_plain(name) for name in _properties(schema)}
        wanted |= {other for name in tuple(wanted) for other in _OTHER_NAMES.get(name, ())}
        kind = _plain(str(schema.get("title", "")))

        def likeliness(item: Any) -> tuple[bool, int]:
            known = sum(_plain(key) in wanted for key in item.value)
            return bool(kind) and _plain(item.kind) == kind, known

        items = sorted(self._facts.items, key=likeliness, reverse=True)
        found = [_Place(f"{item.origin} {item.kind}".strip(), item.value) for item in items]
        title = {"title": self._facts.title} if self._facts.title else {}
        return [*found, _Place("meta", dict(self._facts.meta)), _Place("title", dict(title))]

    def _object(
        self, schema: dict[str, Any], places: Sequence[_Place], path: str, depth: int
    ) -> dict[str, Any]:
        """An object; raises NothingFoundError where no property is found."""
        if depth > MAX_DEPTH:
            raise NothingFoundError
        found: dict[str, Any] = {}
        missing: list[str] = []
        for name, part in list(_properties(schema).items()):
            pointer = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            try:
                found[name] = self._property(self._schema(part), name, places, pointer, depth)
            except NothingFoundError:
                if name in (schema.get("required") or ()):
                    missing.append(pointer)
        if not found and (path or _properties(schema)):
            if not path:
                self._missing += missing
            raise NothingFoundError
        self._missing += missing
        return found

    def _property(
        self, schema: dict[str, Any], name: str, places: Sequence[_Place], path: str, depth: int
    ) -> Any:
        for origin, value in _candidates(name, places):
            with suppress(NothingFoundError):
                return self._value(schema, value, origin, path, depth)
        if "array" in _types(schema):
            return self._objects(schema, name, path, depth)
        raise NothingFoundError

    def _objects(self, schema: dict[str, Any], name: str, path: str, depth: int) -> list[Any]:
        """A list of objects: the items of a kind, or the rows of the table that fits best."""
        inner = self._schema(schema.get("items"))
        wanted = {_plain(key) for key in _properties(inner)}
        kinds = {_plain(name), _plain(name).removesuffix("s"), _plain(str(inner.get("title", "")))}
        groups: list[list[_Place]] = [
            [
                _Place(f"{item.origin} {item.kind}", item.value)
                for item in self._facts.items
                if item.kind and _plain(item.kind) in kinds
            ]
        ]
        tables = sorted(
            (table for table in self._facts.records if table.rows),
            key=lambda table: -len(wanted & {_plain(key) for key in table.rows[0]}),
        )
        groups += [[_Place(f"{t.origin} row {n}", dict(row)) for n, row in enumerate(t.rows, 1)]
                   for t in tables if wanted & {_plain(key) for key in t.rows[0]}]  # fmt: skip
        for group in groups:
            rows: list[Any] = []
            for place in group[:MAX_ITEMS]:
                with suppress(NothingFoundError):
                    rows.append(self._object(inner, [place], f"{path}/{len(rows)}", depth + 1))
            if rows:
                return rows
        raise NothingFoundError

    def _value(self, schema: dict[str, Any], value: Any, origin: str, path: str, depth: int) -> Any:
        """The value as a schema wants it; records where it is from. Raises NothingFoundError."""
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise NothingFoundError
        choices = next((schema[key] for key in ("anyOf", "oneOf") if key in schema), None)
        if isinstance(choices, list):
            for choice in choices[:_MAX_CHOICES]:
                with suppress(NothingFoundError):
                    return self._value(self._schema(choice), value, origin, path, depth + 1)
            raise NothingFoundError
        for kind in _types(schema):
            with suppress(NothingFoundError):
                return self._of_kind(kind, schema, value, origin, path, depth)
        raise NothingFoundError

    def _of_kind(
        self, kind: str, schema: dict[str, Any], value: Any, origin: str, path: str, depth: int
    ) -> Any:
        if kind == "object":
            one = value[0] if isinstance(value, list) and value else value
            if not isinstance(one, dict):
                raise NothingFoundError
            return self._object(schema, [_Place(origin, one)], path, depth + 1)
        if kind == "array":
            listed = value if isinstance(value, list) else [value]
            if isinstance(value, str) and "," in value and path.endswith(("tags", "keywords")):
                listed = [part.strip() for part in value.split(",")]
            inner = self._schema(schema.get("items"))
            found: list[Any] = []
            for one in listed[:MAX_ITEMS]:
                with suppress(NothingFoundError):
                    found.append(self._value(inner, one, origin, f"{path}/{len(found)}", depth + 1))
            if not found:
                raise NothingFoundError
            return found
        read, inside = self._scalar(kind, schema, value, 0)
        if not _holds(schema, read):
            raise NothingFoundError
        self._sources[path] = inert(plain(origin + inside))[:200]
        return read

    def _scalar(self, kind: str, schema: dict[str, Any], value: Any, depth: int) -> tuple[Any, str]:
        """A plain value, and where in an object it is from. Raises NothingFoundError."""
        if isinstance(value, list) and value:
            return self._scalar(kind, schema, value[0], depth)
        if isinstance(value, dict) and depth < 2:
            for key in _INSIDE:
                if value.get(key) not in (None, ""):
                    with suppress(NothingFoundError):
                        read, inside = self._scalar(kind, schema, value[key], depth + 1)
                        return read, f".{key}{inside}"
            raise NothingFoundError
        read = _read(kind, value)
        if isinstance(read, str):
            if schema.get("format") in ("uri", "url"):
                read = joined(self._url, read)
                if read is None:
                    raise NothingFoundError
            elif schema.get("format") == "date" and re.match(r"\d{4}-\d\d-\d\dT", read):
                read = read[:10]
        return read, ""


def _read(kind: str, value: Any) -> Any:
    """The value as a string, number, integer or boolean; raises NothingFoundError."""
    found: Any = None
    if kind == "boolean":
        words = {"true": True, "yes": True, "false": False, "no": False}
        found = value if isinstance(value, bool) else words.get(str(value).strip().lower())
    elif kind in ("number", "integer"):
        found = value if not isinstance(value, bool | str) else _number(str(value))
        if kind == "integer" and isinstance(found, float):
            found = int(found) if found.is_integer() and abs(found) < 2**53 else None
        found = found if isinstance(found, int | float) else None
    elif kind == "string" and isinstance(value, str | int | float) and value != "":
        found = inert(visible(str(value))).strip() or None
    if found is None:
        raise NothingFoundError
    return found


def _number(text: str) -> float | int | None:
    """The one number of a text such as `1.299,00 €`; None where there are several or none."""
    found = _NUMBER.findall(text[:_MAX_NUMBER_CHARS])
    if len(found) != 1 or len(text) > _MAX_NUMBER_CHARS:
        return None
    digits = re.sub(r"[\u00a0\u202f' ]", "", found[0]).rstrip(".,")
    comma, dot = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and dot >= 0:
        thousands = "." if comma > dot else ","
        digits = digits.replace(thousands, "").replace(",", ".")
    elif max(comma, dot) >= 0:
        sign = "," if comma >= 0 else "."
        groups = digits.split(sign)
        # `1,299` and `1,299,000` are thousands; `19,90` and `1.5` are fractions.
        is_thousands = len(groups) > 2 or (sign == "," and len(groups[-1]) == 3)
        digits = "".join(groups) if is_thousands else digits.replace(",", ".")
    try:
        number = float(digits)
    except ValueError:
        return None
    return int(number) if number.is_integer() and "." not in digits else number


def _holds(schema: dict[str, Any], value: Any) -> bool:
    limits = {key: schema[key] for key in _LIMITS if key in schema}
    if not limits:
        return True
    try:
        return _validator(limits).is_valid(value)
    except ValueError:
        return True  # the check of the whole says what is wrong with the schema


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """It fetches nothing, whatever `$schema` a part names; raises ValueError."""
    return jsonschema_rs.Draft202012Validator(schema, offline=True, validate_formats=True)


def _candidates(name: str, places: Sequence[_Place]) -> Iterator[tuple[str, Any]]:
    """Values that may be of a name, the likeliest first, with where they are from."""
    names = (_plain(name), *_OTHER_NAMES.get(_plain(name), ()))
    for place in places:
        for wanted in names:
            for key, value in place.value.items():
                if _plain(key) == wanted:
                    yield f"{place.origin}.{key}", value
    for place in places:
        deeper: deque[_Place] = deque([place])
        for _ in range(_MAX_DEEP):
            if not deeper:
                break
            origin, found = deeper.popleft()
            for key, value in found.items():
                one = value[0] if isinstance(value, list) and value else value
                if isinstance(one, dict):
                    inner = _Place(f"{origin}.{key}", one)
                    deeper.append(inner)
                    for inner_key, inner_value in one.items():
                        if _plain(inner_key) in names[:2]:
                            yield f"{inner.origin}.{inner_key}", inner_value


def _plain(name: str) -> str:
    """A name without prefix, case and punctuation: `og:Site_Name` is `sitename`."""
    return re.sub(r"[\W_]", "", _PREFIX.sub("", name[:200])).lower()


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _types(schema: dict[str, Any]) -> tuple[str, ...]:
    """The types that a schema allows, what its keywords imply where it names none."""
    named = schema.get("type")
    if isinstance(named, str):
        return (named,)
    if isinstance(named, list):
        return tuple(one for one in named if isinstance(one, str) and one != "null")
    if _properties(schema):
        return ("object",)
    return ("array",) if "items" in schema else ("string", "number", "boolean")
