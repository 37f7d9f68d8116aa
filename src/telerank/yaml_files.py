"""Reading of YAML files, with errors that name the line."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from telerank.errors import FormatError

_MERGE = "tag:yaml.org,2002:merge"
_MOST = 1_000_000  # values of a file
_SHOWN = 60  # characters of a value that a message has


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file.

    Raises
    ------
    FormatError
        If the file is not YAML or not UTF-8, repeats a key of a mapping, has an alias within what it stands
        for, or stands with its aliases for more than a million values.
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)  # noqa: S506 — a safe loader
    except UnicodeDecodeError as error:
        before = Path(path).read_bytes()[: error.start]
        line, byte = before.count(b"\n") + 1, f"the byte {error.object[error.start]:#x}"
        raise FormatError(path, line, "UTF-8", byte) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise FormatError(path, mark.line + 1 if mark else None, f"YAML ({problem})") from error
    except RecursionError as error:
        raise FormatError(path, None, "YAML of fewer levels") from error


def parse_yaml(text: str) -> Any:
    """What a text in YAML stands for; raises ValueError if it is not as :func:`read_yaml` takes it."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 — a safe loader
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("not YAML") from error


class _Loader(yaml.SafeLoader):
    def get_single_node(self) -> Any:
        node = super().get_single_node()
        _count_values(node, {})
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
        ) as error:  # PyYAML's, of !!int, !!timestamp, …
            kind = node.tag.rpartition(":")[2]
            raise _error(f"{str(node.value)[:_SHOWN]!r} is no {kind}", node) from error

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        known: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in known:
                    raise _error(f"the key {key.value!r} comes twice", key)
                known.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _count_values(node: Any, counts: dict[int, int]) -> int:
    """The number of values that a node stands for, with those of its aliases."""
    if id(node) in counts:
        if not counts[id(node)]:
            raise _error("an alias is within what it stands for", node)
        return counts[id(node)]
    counts[id(node)] = 0
    parts = node.value if isinstance(node, yaml.CollectionNode) else ()
    inner = chain.from_iterable(parts) if isinstance(node, yaml.MappingNode) else parts
    count = 1 + sum(_count_values(part, counts) for part in inner)
    if count > _MOST:
        raise _error(f"with its aliases it stands for more than {_MOST:,} values", node)
    counts[id(node)] = count
    return count


def _error(problem: str, node: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
