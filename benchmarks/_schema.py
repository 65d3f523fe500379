"""Checks reports against schema.json without a package for it.

Of JSON Schema (draft 2020-12), the keywords that schema.json uses; another one is an error, so that
none is passed over in silence.
"""

import json
from pathlib import Path

PATH = Path(__file__).with_name("schema.json")
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
    "boolean": bool,
}
NOTES = {"$schema", "$defs", "title", "description"}


def check(document):
    """Raise ValueError with all that is wrong with a report."""
    schema = json.loads(PATH.read_text())
    wrong = list(errors(document, schema, schema, "report"))
    if wrong:
        raise ValueError("not as schema.json has it: " + "; ".join(wrong[:10]))


def errors(value, schema, root, where):
    """What is wrong with a value, each as a line."""
    for keyword, rule in schema.items():
        if keyword not in NOTES:
            yield from RULES[keyword](value, rule, schema, root, where)


def _ref(value, rule, schema, root, where):
    found = root
    for name in rule.removeprefix("#/").split("/"):
        found = found[name]
    yield from errors(value, found, root, where)


def _type(value, rule, schema, root, where):
    names = [rule] if isinstance(rule, str) else rule
    # Python's booleans are integers.
    if not any(
        isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
        for name in names
    ):
        yield f"{where} is no {' or '.join(names)}"


def _required(value, rule, schema, root, where):
    if isinstance(value, dict):
        yield from (f"{where} has no {name}" for name in rule if name not in value)


def _properties(value, rule, schema, root, where):
    if isinstance(value, dict):
        for name in value.keys() & rule.keys():
            yield from errors(value[name], rule[name], root, f"{where}.{name}")


def _additional(value, rule, schema, root, where):
    if isinstance(value, dict):
        for name in value.keys() - schema.get("properties", {}).keys():
            if rule is False:
                yield f"{where} has {name}, which is not in the schema"
            elif isinstance(rule, dict):
                yield from errors(value[name], rule, root, f"{where}.{name}")


def _items(value, rule, schema, root, where):
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from errors(item, rule, root, f"{where}[{i}]")


def _any_of(value, rule, schema, root, where):
    if all(any(True for _ in errors(value, one, root, where)) for one in rule):
        yield f"{where} is none of what it may be"


def _enum(value, rule, schema, root, where):
    if value not in rule:
        yield f"{where} is not in {rule}"


def _at_least(size_of, holds, words):
    def rule_of(value, rule, schema, root, where):
        size = size_of(value)
        if size is not None and not holds(size, rule):
            yield f"{where} is not {words} {rule}"

    return rule_of


def _number(value):
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length(value):
    return len(value) if isinstance(value, str | list) else None


RULES = {
    "$ref": _ref,
    "type": _type,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "anyOf": _any_of,
    "enum": _enum,
    "minimum": _at_least(_number, lambda size, rule: size >= rule, "at least"),
    "exclusiveMinimum": _at_least(_number, lambda size, rule: size > rule, "more than"),
    "minItems": _at_least(_length, lambda size, rule: size >= rule, "at least as long as"),
    "minLength": _at_least(_length, lambda size, rule: size >= rule, "at least as long as"),
}
