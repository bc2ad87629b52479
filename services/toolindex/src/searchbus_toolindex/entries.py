"""What is indexed of a descriptor: names for exact matches, a text, further words."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from searchbus_contracts import (
    Catalog,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceTemplate,
    ToolDescriptor,
)
from searchbus_contracts.toolindex import Kind

from .words import split_words, stem, terms

Key = tuple[str, str, str]
_MAX_TEXT_CHARS = 4000
"""The model reads 512 tokens only; the rest is found by its words."""
_MAX_EXAMPLES = 20
_MAX_SUMMARY_CHARS = 300
_INPUTS = " Inputs: "
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


@dataclass(frozen=True)
class IndexEntry:
    """One tool, prompt, resource or resource template.

    Args:
        names: a query that equals one of them puts the entry first.
        text: embedded, and searched by words.
        examples: requests that it serves, each embedded separately.
        keywords: searched by words only.
        aside: found only where its toolset is named.
    """

    kind: Kind
    toolset: str
    name: str
    names: tuple[str, ...]
    text: str
    examples: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    required_roles: tuple[str, ...] = ()
    aside: bool = False
    phrases: str = field(init=False, repr=False, compare=False)
    digest: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole = (self.kind, self.toolset, self.name, self.names, self.text, self.examples,
                 self.keywords, self.required_roles, *([True] if self.aside else []))  # fmt: skip
        setattr_ = object.__setattr__
        setattr_(self, "phrases", phrase(f"{' | '.join(self.names)} | {self.text} | {self._extra}"))
        setattr_(self, "digest", hashlib.sha256(repr(whole).encode()).digest()[:16])

    @property
    def summary(self) -> str:
        """The heading and the first sentence of the text, which say most about it."""
        text = self.text.partition(_INPUTS)[0]
        heading = text.find(". ") + 1
        end = _SENTENCE_END.search(text, heading + 1)
        return text[: end.start() if end else len(text)].strip()[:_MAX_SUMMARY_CHARS]

    @property
    def embedded(self) -> tuple[str, ...]:
        """The texts that have vectors: its text, its summary and its examples."""
        return (self.text, self.summary, *self.examples)

    @property
    def _extra(self) -> str:
        return " ".join((*self.examples, *self.keywords))

    def count_terms(self) -> Counter[str]:
        """Its terms, which the index keeps by term, not by entry."""
        # The name counts twice: it is the best summary.
        return Counter(terms(f"{self.names[0]} {self.text} {self._extra}"))

    def words(self, counts: Counter[str]) -> set[str]:
        """Its words as written, whose stems are among its terms."""
        return {word for word in self.phrases.split() if stem(word) in counts}

    @property
    def key(self) -> Key:
        """Identity; also breaks ties between equal scores."""
        return (self.kind, self.toolset, self.name)


def phrase(text: str) -> str:
    """Lower-cased words between single spaces, for matching phrases and names."""
    return f" {' '.join(word.lower() for word in split_words(text))} "


Descriptor = ToolDescriptor | PromptDescriptor | ResourceDescriptor | ResourceTemplate


def descriptors_of(catalog: Catalog) -> Iterator[Descriptor]:
    """Every descriptor of a catalogue, of any kind."""
    templates = (template for template in catalog.resource_templates if template.listed)
    return chain(catalog.tools, catalog.prompts, catalog.resources, templates)


def entry_of(descriptor: Descriptor) -> IndexEntry:
    """What is indexed of a descriptor."""
    match descriptor:
        case ToolDescriptor():
            return _tool(descriptor)
        case PromptDescriptor():
            return _prompt(descriptor)
        case ResourceDescriptor():
            return _resource(descriptor, descriptor.uri)
        case ResourceTemplate():
            return _resource(descriptor, descriptor.uri_template)


def _tool(tool: ToolDescriptor) -> IndexEntry:
    return IndexEntry(
        kind="tool",
        toolset=tool.toolset,
        name=tool.name,
        names=_names(tool.name, tool.title),
        text=tool_text(tool.toolset, tool.name, tool.title, tool.description, tool.input_schema),
        examples=tool.examples[:_MAX_EXAMPLES],
        keywords=tool.keywords,
        required_roles=tool.required_roles,
        aside=tool.aside,
    )


def tool_text(
    server: str, name: str, title: str | None, description: str, schema: dict[str, Any]
) -> str:
    """`{server} {name words}. {description} Inputs: {parameter}: {its description}; …`"""
    words = " ".join(split_words(name))
    heading = f"{server} {words}."
    if title and title.lower() != words.lower():
        heading += f" {title}."
    text = f"{heading} {description}"
    inputs = _inputs(schema)
    if inputs:
        text += f"{_INPUTS}{'; '.join(inputs)}"
    return text[:_MAX_TEXT_CHARS]


def _inputs(schema: dict[str, Any]) -> list[str]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return []
    found = []
    for name, value in properties.items():
        about = value.get("description", "") if isinstance(value, dict) else ""
        found.append(f"{' '.join(split_words(str(name)))}: {about}")
    return found


def _prompt(prompt: PromptDescriptor) -> IndexEntry:
    words = " ".join(split_words(prompt.name))
    inputs = [f"{a.name}: {a.description or ''}" for a in prompt.arguments]
    text = f"{prompt.toolset} {words}. {prompt.title or ''}. {prompt.description or ''}"
    return IndexEntry(
        kind="prompt",
        toolset=prompt.toolset,
        name=prompt.name,
        names=_names(prompt.name, prompt.title),
        text=(text + (f"{_INPUTS}{'; '.join(inputs)}" if inputs else ""))[:_MAX_TEXT_CHARS],
        keywords=prompt.keywords,
        required_roles=prompt.required_roles,
    )


def _resource(resource: ResourceDescriptor | ResourceTemplate, uri: str) -> IndexEntry:
    words = " ".join(split_words(resource.name))
    about = " ".join(filter(None, (resource.title, resource.description, resource.mime_type)))
    return IndexEntry(
        kind="resource",
        toolset=resource.toolset,
        name=uri,
        names=_names(resource.name, resource.title, uri),
        text=f"{resource.toolset} {words}. {about} {uri}"[:_MAX_TEXT_CHARS],
        required_roles=resource.required_roles,
    )


def _names(*names: str | None) -> tuple[str, ...]:
    """Those that there are, in composed letters, as queries have them."""
    return tuple(unicodedata.normalize("NFC", name) for name in names if name)
