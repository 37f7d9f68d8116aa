"""Reading of YAML files, with errors that name the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from telerank.errors import FormatError

_MERGE = "tag:yaml.org,2002:merge"


def read_yaml(path: str | Path) -> Any:
    """Read a YAML file.

    Raises
    ------
    FormatError
        If the file is not YAML or not UTF-8, or repeats a key of a mapping.
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


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        known: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in known:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} comes twice", key.start_mark
                    )
                known.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping
