"""What the readers of collections share: streams, finding files, decoding lines, reporting bad bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar

from telerank.drafts import is_device
from telerank.errors import CollectionError, FormatError, nearest_name
from telerank.expressions import call_text
from telerank.trec import BOM, Conditions, decode, numbered_lines, open_bytes, read_topics
from telerank.types import Qrel, Query

Record = TypeVar("Record")
Loaded = TypeVar("Loaded")
Part = TypeVar("Part")
# The records of a file or of several: each call starts again at the first one.
Stream: TypeAlias = Callable[[], Iterator[Record]]
# The name of the split of a collection whose files name none.
WHOLE = "all"
PACKED = (".gz", ".xz")
# The environment variable with folders of collections.
DATA_VARIABLE = "TELERANK_DATA"
_SUFFIX = re.compile(r"\.(?:txt|tsv|trec|xml|jsonl)$")
_PREFIX = re.compile(r"^(?:topics|queries|query|qrels?)(?:[._-]|$)")
_PART = re.compile(r"(?<![a-z])(train|dev|valid|validation|val|test)(?![a-z])")
_FEW = 100  # files
_BACKUP = re.compile(r"(.+?)(?:~|\.(?:bak|old|orig))", re.IGNORECASE)
_NOTES = re.compile(r"readme|licen[sc]e|copying", re.IGNORECASE)
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"(\s*+:)?|\\?\Z)|[{}\[\]]', re.DOTALL)  # of JSON


def data_folders() -> list[Path]:
    """The folders of collections that ``TELERANK_DATA`` names, separated as in PATH."""
    return [Path(folder) for folder in os.environ.get(DATA_VARIABLE, "").split(os.pathsep) if folder]


def locate_data(name: str | Path) -> Path:
    """Where a collection is, or a file of one: at this path, or else below a folder of ``TELERANK_DATA``.

    A path that is absolute or begins with a dot is taken as it is; so is one that is nowhere.
    """
    path = Path(name)
    if path.exists() or path.is_absolute() or str(name).startswith((".", "-", "~")) or not str(name).strip():
        return path
    return next((folder / path for folder in data_folders() if (folder / path).exists()), path)


def nearest_data(name: str) -> str:
    """The end of a message about a collection that is nowhere: the nearest one beside it, or in the data."""
    path = Path(name)
    folders = [path.parent]
    if not path.is_absolute():
        folders += [folder / path.parent for folder in data_folders()]
    known = [other.name for folder in folders if folder.is_dir() for other in folder.iterdir()]
    near = nearest_name(known, path.name)
    return near.replace("'", f"'{path.parent}/", 1) if near and str(path.parent) != "." else near


def read_columns(path: Path, encoding: str, names: str) -> Iterator[tuple[int, list[str]]]:
    """Read the columns of each line, with its number; the last column may contain tabs."""
    count = len(names.split())
    tabs = "a tab" if count == 2 else "tabs"
    for number, line in numbered_lines(path, encoding):
        columns = line.split("\t", count - 1)
        if len(columns) != count:
            raise FormatError(path, number, f"{count} columns with {tabs} between: {names}", line)
        yield number, columns


def read_text(path: Path, encoding: str) -> str:
    """Read a whole file."""
    with open_bytes(path) as file:
        return decode(file.read().removeprefix(BOM), path, encoding)


def check_encoding(encoding: str) -> None:
    """Check that an encoding is known and has a single-byte line end, which UTF-16 has not."""
    try:
        fits = "\n".encode(encoding) == b"\n"
    except LookupError as error:
        raise CollectionError(f"unknown encoding {encoding!r}") from error
    if not fits:
        raise CollectionError(
            f"encoding {encoding!r} has no single-byte line end: convert the files to UTF-8 first"
        )


def plain_name(path: Path) -> str:
    """The file's name without ``.gz`` or ``.xz``."""
    return path.stem if path.suffix in PACKED else path.name


def list_entries(path: Path) -> list[Path]:
    """The entries of a folder that are not hidden, sorted, or the file itself."""
    if not path.is_dir():
        return [path]
    return [path / name for name in sorted(os.listdir(path)) if not name.startswith(".")]  # noqa: PTH208


def find_backups(files: Sequence[Path]) -> list[Path]:
    """Those of some files that have the name of another one and ``~``, ``.bak``, ``.old`` or ``.orig``."""
    names = {(file.parent, name.lower()) for file in files for name in (file.name, plain_name(file))}
    matches = ((file, _BACKUP.fullmatch(plain_name(file).lower())) for file in files)
    return [file for file, match in matches if match and (file.parent, match[1]) in names]


def list_files(path: Path) -> list[Path]:
    """:func:`list_entries` without backups of other files."""
    entries = list_entries(path)
    backups = {*find_backups(entries)}
    return [entry for entry in entries if entry not in backups]


def list_few(path: Path) -> list[Path]:
    """:func:`list_files` for formats of few files, each of which is examined; none of a folder of many."""
    if not path.is_dir():
        return [path]
    with os.scandir(path) as entries:
        names = [entry.name for entry in islice(entries, _FEW + 1)]
    return list_files(path) if len(names) <= _FEW else []


def find_file(folder: Path, name: str) -> Path | None:
    """The file ``name`` of a folder, plain or compressed, or None."""
    files = (folder / f"{name}{extension}" for extension in ("", *PACKED))
    return next((file for file in files if file.is_file()), None)


def require_file(folder: Path, name: str) -> Path:
    """:func:`find_file`, for a file that must exist."""
    if file := find_file(folder, name):
        return file
    raise CollectionError(f"{folder}: no {name} (or .gz, .xz)")


def match_splits(path: Path, names: re.Pattern[str]) -> dict[str, Path]:
    """The files of a folder by the first group of ``names`` that matches, ``all`` if none does."""
    matches = ((names.fullmatch(plain_name(file)), file) for file in list_files(path) if path.is_dir())
    return {next(filter(None, match.groups()), WHOLE): file for match, file in matches if match}


def bind_files(
    read: Callable[..., Iterator[Record]], files: Mapping[str, object], **settings: object
) -> dict[str, Stream[Record]]:
    """The stream of each split that has a file, or whatever ``read`` takes."""
    return {split: partial(read, file, **settings) for split, file in files.items() if file}


def bind_parts(
    read: Mapping[str, Callable[[], Loaded]], part: Callable[[Loaded], Part]
) -> dict[str, Callable[[], Part]]:
    """A part of what each split's file is read into as a stream."""
    return {split: partial(lambda load: part(load()), load) for split, load in read.items()}


def read_all(
    read: Callable[..., Iterator[Record]], files: Iterable[Path], *settings: object
) -> Iterator[Record]:
    """The records of all files, one file after the other."""
    return (record for file in files for record in read(file, *settings))


def load_splits(
    path: Path,
    files: Mapping[str, Path],
    read: Callable[[Path, str, str], Loaded],
    encoding: str,
    missing: str,
) -> dict[str, Callable[[], Loaded]]:
    """What each split's file is read into, once, with the prefix of ids that the files do not state.

    It is the split if there are several. Without files it raises CollectionError, which says ``missing``.
    """
    if not files:
        raise CollectionError(f"{path}: {missing}")
    prefixes = {split: f"{split}-" if len(files) > 1 else "" for split in files}
    return {split: cache(partial(read, file, encoding, prefixes[split])) for split, file in files.items()}


def group_by_split(topics: list[Path], qrels: list[Path]) -> tuple[dict[str, Path], dict[str, Path]]:
    """Topics and qrels files by the split in their names: ``topics.dl20.txt.gz`` is ``dl20``.

    A single pair of files always belongs together: if their names differ, the split is ``all``.
    """
    topics_by_split, qrels_by_split = _by_split(topics), _by_split(qrels)
    if len(topics) == len(qrels) == 1 and topics_by_split.keys() != qrels_by_split.keys():
        return {WHOLE: topics[0]}, {WHOLE: qrels[0]}
    return topics_by_split, qrels_by_split


def _by_split(files: list[Path]) -> dict[str, Path]:
    splits: dict[str, Path] = {}
    for file in files:
        split = _PREFIX.sub("", _SUFFIX.sub("", plain_name(file))) or WHOLE
        if split in splits:
            raise CollectionError(
                f"{file}: a second file for the split {split!r}, beside {splits[split].name}"
            )
        splits[split] = file
    return splits


def name_splits(files: list[Path]) -> dict[str, Path]:
    """Files by the part of the data in their names (``train``, ``dev``, ``test``), or ``all`` without one.

    If two files name the same part, their whole names are the splits.
    """
    matches = [_PART.search(plain_name(file).lower()) for file in files]
    splits = [match[1] if match else WHOLE for match in matches]
    return {
        split if splits.count(split) == 1 else Path(plain_name(file)).stem: file
        for split, file in zip(splits, files, strict=True)
    }


def judged_queries(qrels: Stream[Qrel], queries: Path, encoding: str, judge: str = "") -> Iterator[Query]:
    """The queries that qrels judge, in the order of a file that has those of all splits.

    One that the file lacks is a FormatError, which names the qrels as ``judge``.
    """
    missing = {qrel.qid for qrel in qrels()}
    for query in read_topics(queries, encoding=encoding):
        if query.qid in missing:
            missing.remove(query.qid)
            yield query
    if missing:
        some = ", ".join(sorted(missing)[:3])
        raise FormatError(queries, None, f"every query of {judge}; {len(missing)} are missing ({some})")


def unread_files(path: Path, used: Iterable[Path | None]) -> tuple[str, ...]:
    """The names of the entries of a folder that are not used, but for READMEs and licences."""
    left = {*list_entries(path)} - {*used} if path.is_dir() else set()
    return tuple(entry.name for entry in sorted(left) if not is_note(entry))


def choose_file(folder: Path, form: str, kind: str, files: Sequence[Path], name: str = "") -> Path | None:
    """The only one of the files of a kind, or the one that is named; None if there is none.

    Raises
    ------
    CollectionError
        If there are several and none is named, or none has that name.
    """
    names = " and ".join(file.name for file in files)
    if name and name not in {file.name for file in files}:
        raise CollectionError(f"{folder}: {name} has no {kind}; files with {kind}: {names or 'none'}")
    if not name and len(files) > 1:
        example = call_text(form, **{kind: files[0].name})
        raise CollectionError(
            f'{folder}: {"both " * (len(files) == 2)}{names} have {kind}; choose one: format="{example}"'
        )
    return next((file for file in files if name in ("", file.name)), None)


def is_note(file: Path) -> bool:
    """Whether a file is a README or a licence by its name."""
    return bool(_NOTES.match(file.name))


def has_file(path: Path, name: str) -> Conditions:
    """The conditions of a folder with the file ``name``, plain or compressed."""
    if path.is_dir():
        yield find_file(path, name), f"no {name} (or .gz, .xz) in it"
    else:
        yield False, "a file, not a folder"


def has_files(
    find: Callable[[Path], object], in_folder: str, alone: str, named: str = ""
) -> Callable[[Path], Conditions]:
    """The conditions of a path in which ``find`` finds something; it is nearer with ``named`` in a name.

    ``in_folder`` is said of a folder without it, ``alone`` of a file.
    """

    def conditions(path: Path) -> Conditions:
        if named:
            yield any(named in file.name.lower() for file in list_few(path)), ""
        yield find(path), in_folder if path.is_dir() else alone

    return conditions


def read_beginning(path: Path, size: int = 4096) -> str:
    """Read the first bytes of a file as text, to recognise its format; invalid bytes are replaced.

    A folder has no text, and a pipe none that can be read twice.
    """
    if is_device(path):
        return ""
    try:
        with open_bytes(path) as file:
            return file.read(size).removeprefix(BOM).decode("utf-8", "replace")
    except (FormatError, OSError):  # reported when the file is read
        return ""


def read_first_lines(path: Path) -> list[str]:
    """The lines within the first 4 KiB that are not blank; the last may be cut."""
    return [line for line in read_beginning(path).split("\n") if line.strip()]


def read_first_line(path: Path) -> str:
    """The first line that is not blank, within the first 4 KiB; empty if there is none."""
    return next(iter(read_first_lines(path)), "")


def read_first_keys(path: Path) -> set[str]:
    """The keys of the first JSON object in a file, or in the array in it, within its first 64 KiB."""
    return first_keys(read_beginning(path, 1 << 16))


def first_keys(text: str) -> set[str]:
    """The keys of the JSON object, or of the first one of the array, that a text begins with."""
    depth, keys = 0, set[str]()
    text = text.lstrip().removeprefix("[").lstrip()
    for token in _TOKEN.finditer(text if text.startswith("{") else ""):
        if token[0] in {"{", "["}:
            depth += 1
        elif token[0] in {"}", "]"}:
            depth -= 1
            if not depth:
                break
        elif depth == 1 and token[2]:
            keys.add(token[1])
    return keys
