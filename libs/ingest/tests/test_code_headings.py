"""Source code is cut where functions and classes begin."""

from __future__ import annotations

import pytest

from searchbus_ingest.chunking import cut
from searchbus_ingest.code_headings import CODE_SUFFIXES, find_code_headings

BODY = "    x = compute(x)\n" * 20


@pytest.mark.parametrize(
    ("suffix", "line"),
    [(".py", "async def sing(whale):"), (".js", "export const sing = (whale) => {"),
     (".ts", "export interface Whale {"), (".go", "func (w *Whale) Sing() error {"),
     (".rs", "pub(crate) fn sing(&self) {"), (".java", "public class Whale {"),
     (".java", "    public List<String> sing(int times) {"), (".c", "static int sing(struct whale *w) {"),
     (".cs", "public async Task Sing(int times) {"), (".rb", "def sing"), (".sh", "sing() {"),
     (".sql", "CREATE TABLE whales (")],
)  # fmt: skip
def test_functions_and_classes_begin_a_section(suffix, line):
    """By the language's own words."""
    text = f"# first\n{BODY}\n{line}\n{BODY}"
    (found,) = find_code_headings(text, suffix)
    assert text[found.start :].strip().startswith(line.strip())


def test_a_method_names_its_class():
    """A passage tells what it is part of."""
    text = f"class Whale:\n{BODY}\n    def sing(self):\n{BODY}"
    chunks = cut(text, code_suffix=".py")
    assert {chunk.section for chunk in chunks} == {"class Whale", "class Whale > def sing(self)"}


def test_short_functions_share_a_passage():
    """Each alone would say nothing."""
    text = "".join(f"def f{n}():\n    return {n}\n\n" for n in range(40))
    assert len(cut(text, code_suffix=".py")) <= len(text) // 250 + 1


@pytest.mark.parametrize("suffix", sorted(CODE_SUFFIXES))
def test_a_long_line_is_searched_once(suffix):
    """Minified code and hostile lines; quadratic time would not end."""
    for text in (
        "a" * 10**6,
        "a " * 500_000,
        " " * 10**6,
        "function(" * 100_000,
        "public " * 10**5,
    ):
        find_code_headings(text, suffix)
