"""Make the files beside this one with other programs: ``python make.py``.

The texts are in ``sources``, and ``budget.md`` and ``dechets.html``, which tests read, too.

It needs pdflatex with Latin Modern, LibreOffice Writer, pandoc, Chromium, groff, qpdf, pdftoppm and Pillow (Debian:
texlive-latex-recommended lmodern libreoffice-writer-nogui pandoc chromium groff qpdf poppler-utils). Tests read the
files as they are, and need none of these. All texts were written for these tests, about a town that does not exist.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
SOURCES = HERE / "sources"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def run(*command: str | Path, folder: Path) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "FORCE_SOURCE_DATE": "1"}
    subprocess.run([str(word) for word in command], cwd=folder, env=environment, check=True, **QUIET)


def make_latex(folder: Path) -> None:
    """Two columns with hyphens, accents of T1 and OT1, ligatures, footnotes, heads and feet of pages."""
    for name in ("eaux", "vieux-accents"):
        for _ in range(2):  # the second pass has the bookmarks
            run("pdflatex", "-interaction=batchmode", SOURCES / f"{name}.tex", folder=folder)
        shutil.copy(folder / f"{name}.pdf", HERE)


def make_libreoffice(folder: Path) -> None:
    """One text as PDF, DOCX and HTML, and a text from right to left as PDF and DOCX."""
    office = ("soffice", "--headless", f"-env:UserInstallation=file://{folder}/profile", "--convert-to")
    for name in ("ecole", "arabe"):
        run(*office, "pdf", SOURCES / f"{name}.fodt", folder=folder)
        run(*office, "docx:MS Word 2007 XML", SOURCES / f"{name}.fodt", folder=folder)
        for suffix in ("pdf", "docx"):
            shutil.copy(folder / f"{name}.{suffix}", HERE)
    run(*office, "html", SOURCES / "ecole.fodt", folder=folder)
    shutil.copy(folder / "ecole.html", HERE)


def make_pandoc(folder: Path) -> None:
    """A text in Markdown as DOCX, and as HTML with a table of contents."""
    run("pandoc", "-o", HERE / "budget.docx", HERE / "budget.md", folder=folder)
    page = HERE / "budget.html"
    run("pandoc", "-s", "--toc", "-M", "lang=fr", "-o", page, HERE / "budget.md", folder=folder)


def make_chromium(folder: Path) -> None:
    """A page of a site, printed."""
    printed = f"--print-to-pdf={HERE / 'dechets.pdf'}"
    browser = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer")
    run(*browser, f"--user-data-dir={folder / 'chromium'}", printed, HERE / "dechets.html", folder=folder)


def make_groff(folder: Path) -> None:
    with (HERE / "avis.pdf").open("wb") as file:
        text = SOURCES / "avis.ms"
        subprocess.run(["groff", "-k", "-ms", "-Tpdf", text], stdout=file, cwd=folder, check=True)


def make_protected(folder: Path) -> None:
    """An encrypted file, one that only forbids changes, and one that is an image alone."""
    plain = HERE / "avis.pdf"
    run("qpdf", "--encrypt", "secret", "owner", "256", "--", plain, HERE / "chiffre.pdf", folder=folder)
    run(
        "qpdf",
        "--encrypt",
        "",
        "owner",
        "256",
        "--modify=none",
        "--",
        plain,
        HERE / "verrouille.pdf",
        folder=folder,
    )
    run("pdftoppm", "-r", "40", "-gray", "-png", "-singlefile", plain, "page", folder=folder)
    Image.open(folder / "page.png").convert("1").save(HERE / "numerise.pdf")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for make in (make_latex, make_libreoffice, make_pandoc, make_chromium, make_groff, make_protected):
            make(Path(scratch))
            print(make.__name__, file=sys.stderr)
