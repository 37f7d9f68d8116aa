"""The versions of what computes figures and rankings, as results have them in their records."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("telerank", "numpy", "numba", "ir-measures", "scipy", "PyStemmer")
_OF_EXTRAS = ("torch", "transformers", "faiss-cpu", "openvino", "onnxruntime")


def versions() -> dict[str, str]:
    """Of Python, and of the packages that rankings and figures depend on, as far as they are installed."""
    numbers = {"python": platform.python_version()}
    for name in (*_PACKAGES, *_OF_EXTRAS):
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers
