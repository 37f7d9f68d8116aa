"""Records of files, checked against a type: an error names the file, the key and what was expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from telerank.errors import TelerankError

T = TypeVar("T")
_UNKNOWN = "unknown_key"


class Section(BaseModel):
    """A group of settings; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """A setting that is declared again for another default keeps its explanation."""
        for base in cls.__bases__:
            for name, field in getattr(base, "model_fields", {}).items():
                cls.model_fields[name].description = cls.model_fields[name].description or field.description

    @model_validator(mode="before")
    @classmethod
    def _name_the_nearest_key(cls, record: Any) -> Any:
        for key in record if isinstance(record, Mapping) else ():
            if key not in cls.model_fields:
                near = get_close_matches(str(key), cls.model_fields, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise PydanticCustomError(_UNKNOWN, "unknown key{hint}", {"key": str(key), "hint": hint})
        return record


def describe_error(error: ValidationError) -> str:
    """What was expected instead of the first invalid value, in one line."""
    first, more = error.errors()[0], error.error_count() - 1
    path = [str(part) for part in first["loc"]]
    setting, message = ".".join(path), first["msg"].removeprefix("Value error, ")
    if first["type"] == _UNKNOWN:
        setting = ".".join([*path, first["ctx"]["key"]])
        expected = f"known keys, not {setting!r}{first['ctx']['hint']}"
    elif first["type"] == "json_invalid":
        expected = message.replace("Invalid JSON", "JSON")
    else:
        expected = f"{setting or 'settings that fit together'}: {message}"
    return f"{expected} (and {more} more)" if more else expected


def read_record(path: Path, kind: type[T], fault: Callable[[str], TelerankError]) -> T:
    """The value in a JSON file as ``kind``: a dataclass, or a type such as ``dict[str, int]``.

    Raises what ``fault`` makes of a message if the file cannot be read, is not JSON, or holds something else.
    """
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except OSError as error:
        raise fault(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        raise fault(f"{path}: expected {describe_error(error)}") from error
    except TelerankError as error:  # of the dataclass itself
        raise fault(f"{path}: {error}") from error
