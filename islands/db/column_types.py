"""Column types that both databases keep exactly: text as models write it, and ids that SQLite numbers by itself."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Dialect, Integer, Text, TypeDecorator

ESCAPED = "\ue000"
"""First character (private use) of a text that had to be escaped."""


class ModelText(TypeDecorator[str]):
    """Text that a model may have written: NUL characters, which PostgreSQL refuses, and lone surrogates, which UTF-8
    has no form for, are kept exactly. Everything else is stored as it is."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or ("\x00" not in value and value.isascii()):
            return value
        if "\x00" not in value and not value.startswith(ESCAPED):
            try:
                value.encode()
                return value
            except UnicodeEncodeError:
                pass
        return ESCAPED + value.encode("unicode_escape", "surrogatepass").decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or not value.startswith(ESCAPED):
            return value
        return value[1:].encode("ascii").decode("unicode_escape")


class JsonObject(JSON):
    """A JSON object."""


class JsonNumbers(JSON):
    """A JSON list of numbers."""


class JsonTexts(JSON):
    """A JSON list of texts."""


BigId = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only in a column of type INTEGER
