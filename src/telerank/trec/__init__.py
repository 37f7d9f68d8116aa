r"""The files of the field: runs, qrels and topics, plain or packed, streaming.

All of them are UTF-8. A leading byte order mark and ``\r\n`` are accepted; lines of nothing but
blanks say nothing and are passed over. Any other line that does not follow its format is a
:class:`~telerank.errors.FormatError` that names file and line.
"""

from telerank.trec.files import numbered_lines, open_text
from telerank.trec.qrels import load_qrels, read_qrels, write_qrels
from telerank.trec.runs import read_run, write_run
from telerank.trec.topics import read_topics, write_topics

__all__ = [
    "load_qrels",
    "numbered_lines",
    "open_text",
    "read_qrels",
    "read_run",
    "read_topics",
    "write_qrels",
    "write_run",
    "write_topics",
]
