"""The form that a text must have."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Grammar(NamedTuple):
    """The form that a text must have: made by one of its class methods, given as `grammar=…`.

    It is compiled when it is used; what cannot be kept to is a `GrammarError` then.
    """

    kind: str
    text: str

    @classmethod
    def json(cls) -> Grammar:
        """Any JSON object."""
        return cls("json", "")

    @classmethod
    def json_schema(cls, schema: Any) -> Grammar:
        """JSON that a schema describes: a mapping, JSON, or a Pydantic model's class."""
        if hasattr(schema, "model_json_schema"):
            schema = schema.model_json_schema()
        return cls("json_schema", schema if isinstance(schema, str) else json.dumps(schema))

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that a regular expression matches as a whole."""
        return cls("regex", pattern)

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """A grammar in the Lark dialect of llguidance."""
        return cls("lark", text)

    @classmethod
    def gbnf(cls, text: str) -> Grammar:
        """A grammar as llama.cpp writes them."""
        return cls("gbnf", text)
