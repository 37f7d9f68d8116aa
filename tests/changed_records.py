"""Records of settings with changes, for the small trainings of tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def change_record(record: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The record with other values; of two sections the keys are merged."""
    both = {
        name: isinstance(record.get(name), dict) and isinstance(value, dict)
        for name, value in changes.items()
    }
    return {
        **record,
        **{name: {**record[name], **value} if both[name] else value for name, value in changes.items()},
    }
