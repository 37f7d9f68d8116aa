"""Run the tests of a file with a pretended device: ``python pretend.py LIBRARY FILE [pytest's arguments]``.

torch asks once what a device is, when it is loaded: so the library is loaded first, after what it needs.
"""

from __future__ import annotations

import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    library, *arguments = sys.argv[1:]
    libraries = Path(find_spec("torch").origin).parent / "lib"
    ctypes.CDLL(str(libraries / "libtorch_cpu.so"), mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(library)

    import pytest

    sys.exit(pytest.main(arguments))
