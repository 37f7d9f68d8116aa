"""TREC's SGML documents: ``<DOC>`` … ``</DOC>``, as the newswire of TREC disks 4 and 5 and Vaswani have them.

===========  =================================================================================
``docno``    ``<DOCNO>``
``title``    ``<HEADLINE>``, otherwise ``<TITLE>``, ``<HL>``, ``<HEAD>``, ``<TTL>``, ``<TI>``
``text``     every ``<TEXT>``, ``<LP>`` and ``<LEADPARA>``; without these, everything except
             docno, title and url
``url``      ``<URL>``
===========  =================================================================================

Dates, bylines, sections and captions have elements of their own beside ``<TEXT>``, so they are not part of
the text (Financial Times, LA Times, FBIS, Federal Register). Tags may be in lower case. In texts, tags and
comments become blanks, entities become characters (``&hyph;`` and ``&blank;`` of the Federal Register, too),
and unknown entities stay as they are.

A collection is a file, or a folder with files of documents at any depth, topics (files that begin with
``<top>``, or are named ``topics`` or ``queries``) and qrels (``qrels`` in the name). READMEs, change lists
(``READCHG``, …), DTDs and hidden files are ignored. Robust04 does not include the Congressional Record: keep
its folder ``CR`` elsewhere. Files packed by ``compress`` (``.Z``, ``.z``, ``.0z``) must be unpacked first;
texts that are not UTF-8 need ``--encoding latin-1``.

Source: TREC disks 4 and 5 (trec.nist.gov/data/cd45; licence: NIST's agreement, research only); Vaswani
(University of Glasgow, ir.dcs.gla.ac.uk/resources/test_collections/npl; no licence stated).

``cranfield``: The ``<num>`` of a query (1, 2, 4, 8, …, 365) is its number in a longer list; the qrels use the
position of the query (1 to 225), which is its qid here. Two documents (471 and 995) are empty. The text of a
document begins with its title, which is also its ``title``.

Source: Cleverdon, 1967, in the edition of University of Glasgow
(ir.dcs.gla.ac.uk/resources/test_collections/cran) as TREC files. Licence: none stated.

``robust04``: A folder with the documents of TREC disks 4 and 5 at any depth, and beside them topics and qrels
whose names have ``robust`` (``topics.robust04.txt``, ``qrels.robust2004.txt``). The queries of the split
``title``
are the topics' titles, those of ``description`` their descriptions; both have the same qids and qrels. A
folder ``CR`` is not read and is named as unread. It was tested on small files of this format, never on the
disks.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import partial
from html.entities import html5
from itertools import islice
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.reading import (
    WHOLE,
    bind_files,
    find_backups,
    find_file,
    group_by_split,
    has_file,
    list_entries,
    list_files,
    read_all,
    read_beginning,
    require_file,
    unread_files,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec import Conditions, Format, decode, open_bytes, raw_lines, read_qrels, read_topics
from telerank.types import Doc, Query

_TITLES = ("headline", "title", "hl", "head", "ttl", "ti")
_TEXTS = ("text", "lp", "leadpara")
# (?>…), *+ and ++ never try a shorter match again, so that hostile text costs linear time, too
_DOC = re.compile(rb"<(/?)doc(?:\s[^<>]*+)?>", re.IGNORECASE)
_BETWEEN = re.compile(
    rb"(?>\s++|<!--.*?-->|<[?!/]?[a-z][^<>]*+>|\xef\xbb\xbf|\x1a)*+", re.IGNORECASE | re.DOTALL
)
_ENDS = re.compile(rf"<(/?)(docno|url|{'|'.join((*_TITLES, *_TEXTS))})(?:\s[^<>]*+)?>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]*+>", re.IGNORECASE)
_TAG_OR_COMMENT = re.compile(r"<!--.*?-->|</?[a-z][^<>]*+>", re.IGNORECASE | re.DOTALL)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|\w++);", re.IGNORECASE)
_FEDERAL = {"&hyph;": "-", "&blank;": " "}
_FIRST = re.compile(
    r"(?>\s++|<!--.*?-->|<\?.*?\?>|<(?!doc\b|top\b)[a-z][^<>]*+>)*+<(doc|top)\b", re.IGNORECASE | re.DOTALL
)
_TOPICS = re.compile(r"(?:topics|queries)(?![a-z])", re.IGNORECASE)
_NO_DOCUMENTS = re.compile(
    r"read(?:me|chg|frcg)\w*(?:\.(?:txt|md))?|.*\.dtd|licen[sc]e(?:\.txt)?", re.IGNORECASE
)


def read_docs(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the documents of one file."""
    if _is_compressed(path):
        raise CollectionError(
            f"{path}: packed by compress (LZW), which cannot be read; "
            f"unpack the folder once: gzip -d -r -S {path.suffix} {path.parent}"
        )
    begun, held = 0, list[bytes]()  # the line of the last <DOC>, and what was read since the last tag
    with open_bytes(path) as file:
        for number, line in raw_lines(path, file):
            end = 0
            for tag in _DOC.finditer(line):
                held.append(line[end : tag.start()])
                end = tag.end()
                if bool(tag[1]) != bool(begun):
                    raise FormatError(
                        path, number, f"</DOC> for the document of line {begun}" if begun else "<DOC>"
                    )
                if begun:
                    yield _doc(path, begun, decode(b"".join(held), path, encoding, begun))
                else:
                    _check_between(path, number, held)
                begun = 0 if begun else number
                held.clear()
            held.append(line[end:])
    if begun:
        raise FormatError(path, begun, "</DOC> for the document that begins here, before the file ends")
    _check_between(path, None, held)


def _is_compressed(path: Path) -> bool:
    """Whether the name says that ``compress`` packed the file, as on the TREC disks."""
    return path.suffix.lower() in {".z", ".0z", ".1z", ".2z"}


def _check_between(path: Path, number: int | None, held: list[bytes]) -> None:
    outside = b"".join(held)
    if not _BETWEEN.fullmatch(outside):
        raise FormatError(
            path, number, "nothing but <DOC> … </DOC>", outside.strip().decode("utf-8", "replace")
        )


def _doc(path: Path, begun: int, raw: str) -> Doc:
    elements, rest = _elements(raw)
    docnos = [content for name, content in elements if name == "docno"]
    if len(docnos) != 1:
        raise FormatError(path, begun, "one <DOCNO> in the document that begins here", f"{len(docnos)}")
    names = {name for name, _ in elements}
    headline = next((name for name in _TITLES if name in names), None)
    return Doc(
        _one_line(docnos[0]),
        "\n".join(map(strip_markup, [text for name, text in elements if name in _TEXTS] or [rest])),
        _one_line(" ".join(content for name, content in elements if name == headline)),
        _one_line(" ".join(content for name, content in elements if name == "url")),
    )


def _elements(raw: str) -> tuple[list[tuple[str, str]], str]:
    """The elements with their names, each to the first end tag of its name, and the text that is in none."""
    tags = [(tag[2].lower(), not tag[1], tag) for tag in _ENDS.finditer(raw)]
    closing: dict[str, list[re.Match[str]]] = {name: [] for name, _, _ in tags}
    for name, opens, tag in reversed(tags):
        if not opens:
            closing[name].append(tag)
    elements, rest, end = list[tuple[str, str]](), list[str](), 0
    for name, opens, tag in tags:
        while closing[name] and closing[name][-1].start() < tag.end():
            closing[name].pop()
        if opens and tag.start() >= end and closing[name]:
            last = closing[name][-1]
            elements.append((name, raw[tag.end() : last.start()]))
            rest.append(raw[end : tag.start()])
            end = last.end()
    return elements, " ".join((*rest, raw[end:]))


def strip_markup(text: str) -> str:
    """Remove tags and comments, resolve entities and trim the text; lines are kept."""
    if "<" in text:
        comments = text.rfind("-->") + 3 if "-->" in text else 0  # behind it no comment ends
        text = _TAG_OR_COMMENT.sub(" ", text[:comments]) + _TAG.sub(" ", text[comments:])
    if "&" in text:
        text = _ENTITY.sub(_character, text)
    return text.strip()


def _character(entity: re.Match[str]) -> str:
    name = entity[0]
    known = name.startswith("&#") or name[1:] in html5
    # HTML's &blank; is the symbol for a blank
    return _FEDERAL.get(name) or (html.unescape(name) if known else name)


def _one_line(text: str) -> str:
    return " ".join(strip_markup(text).split())


def _conditions(path: Path) -> Conditions:
    kinds = {file: _kind(file) for file in islice(_files(path), 20)}
    other = next((file.name for file, kind in kinds.items() if not kind), "")
    has_docs = "doc" in kinds.values()
    yield "top" in kinds.values(), ""
    yield has_docs, "it does not begin with <DOC>" if path.is_file() else "no file begins with <DOC>"
    if other:
        yield False, f"{other}: neither documents nor topics (<top>) nor qrels"
    if path.is_dir() and ROBUST04.recognises(path):
        yield False, "Robust04, whose queries are titles or descriptions"
    if CRANFIELD.recognises(path):
        yield False, "Cranfield, which numbers its queries in another way"


def _kind(path: Path) -> str:
    """``doc`` or ``top`` by the content of the file, ``qrels`` by its name, or nothing."""
    if _is_compressed(path):
        return "doc"  # reading it says what to do
    if _TOPICS.match(path.name):
        return "top"
    if match := _FIRST.match(read_beginning(path)):
        return match[1].lower()
    return "qrels" if "qrel" in path.name.lower() else ""


def _files(path: Path) -> Iterator[Path]:
    for entry in list_files(path):
        if entry.is_dir():
            yield from _files(entry)
        elif not _NO_DOCUMENTS.fullmatch(entry.name):
            yield entry


def _open(path: Path, encoding: str) -> Collection:
    topics, qrels = _topics_and_qrels(path)
    questions, judgments = group_by_split(topics, qrels)
    return Collection(
        path.name,
        TREC.name,
        lambda: read_all(
            read_docs, (file for file in _files(path) if file not in {*topics, *qrels}), encoding
        ),
        bind_files(read_topics, questions, encoding=encoding),
        bind_files(read_qrels, judgments),
        unread=tuple(file.relative_to(path).as_posix() for file in _backups(path)),
    )


def _topics_and_qrels(path: Path, name: str = "") -> tuple[list[Path], list[Path]]:
    """The files of topics and of qrels beside the documents of a folder that have ``name`` in theirs."""
    entries = list_files(path) if path.is_dir() else []
    kinds = {file: _kind(file) for file in entries if file.is_file() and name in file.name.lower()}
    topics, qrels = ([file for file, own in kinds.items() if own == kind] for kind in ("top", "qrels"))
    return topics, qrels


def _backups(path: Path) -> Iterator[Path]:
    """The backups of other files, at any depth."""
    entries = list_entries(path)
    yield from find_backups(entries)
    for folder in filter(Path.is_dir, entries):
        yield from _backups(folder)


TREC = Format("trec", _conditions, _open, "TREC SGML: files of <DOC> … </DOC>, with topics and qrels")


_CRANFIELD = ("cran.all.1400.xml", "cran.qry.xml", "cranqrel.trec.txt")


def _cranfield_conditions(path: Path) -> Conditions:
    yield from has_file(path, _CRANFIELD[0])
    yield from ((find_file(path, name), "") for name in _CRANFIELD[1:] if path.is_dir())


def _open_cranfield(path: Path, encoding: str) -> Collection:
    docs, topics, qrels = (require_file(path, name) for name in _CRANFIELD)

    def queries() -> Iterator[Query]:
        for position, query in enumerate(read_topics(topics, format="trec", encoding=encoding), 1):
            yield Query(str(position), query.text)

    return Collection(
        path.name,
        CRANFIELD.name,
        partial(read_docs, docs, encoding),
        {WHOLE: queries},
        {WHOLE: partial(read_qrels, qrels)},
        size=1400,
        unread=unread_files(path, [docs, topics, qrels]),
        source="Cleverdon 1967, ir.dcs.gla.ac.uk/resources/test_collections/cran",
    )


CRANFIELD = Format(
    "cranfield", _cranfield_conditions, _open_cranfield, f"Cranfield as XML: {', '.join(_CRANFIELD)}"
)


# The splits of Robust04, and the field of the topics that their queries are.
ROBUST_FIELDS = {"title": "title", "description": "desc"}


def _robust_conditions(path: Path) -> Conditions:
    topics, qrels = _topics_and_qrels(path, "robust")
    yield topics, "no file of topics (<top>) whose name has robust"
    yield qrels, "no file of qrels whose name has robust and qrel"
    described = any("<desc" in read_beginning(file).lower() for file in topics)
    yield described, "its topics have no descriptions (<desc>)"
    yield (
        described and any(_kind(file) == "doc" for file in islice(_files(path), 20)),
        "no file begins with <DOC>",
    )


def _open_robust(path: Path, encoding: str) -> Collection:
    topics, qrels = _topics_and_qrels(path, "robust")
    if len(topics) != 1 or len(qrels) != 1:
        names = ", ".join(file.name for file in (*topics, *qrels)) or "none"
        raise CollectionError(f"{path}: Robust04 has one file of topics and one of qrels, got {names}")
    # the Congressional Record is on the disks, and not in Robust04
    congress = {entry for entry in list_files(path) if entry.is_dir() and entry.name.lower() == "cr"}

    def docs() -> Iterator[Doc]:
        entries = (entry for entry in list_files(path) if entry not in {*topics, *qrels, *congress})
        return read_all(read_docs, (file for entry in entries for file in _files(entry)), encoding)

    return Collection(
        path.name,
        ROBUST04.name,
        docs,
        {
            split: partial(read_topics, topics[0], field, format="trec", encoding=encoding)
            for split, field in ROBUST_FIELDS.items()
        },
        {split: partial(read_qrels, qrels[0]) for split in ROBUST_FIELDS},
        unread=tuple(entry.name for entry in sorted(congress)),
        source="TREC disks 4 and 5 without the Congressional Record; trec.nist.gov/data/robust",
    )


ROBUST04 = Format(
    "robust04",
    _robust_conditions,
    _open_robust,
    "Robust04: folders of TREC disks 4 and 5, one file of topics and one of qrels named robust",
)
