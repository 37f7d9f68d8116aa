r"""Reading and writing of runs, qrels and topics, plain or compressed, streaming.

Files are UTF-8. A leading byte order mark and ``\r\n`` are accepted, and blank lines are skipped. Any other
line that does not follow its format raises a :class:`~telerank.errors.FormatError` with file and line. What
trec_eval reads all the same is read with a :class:`~telerank.errors.FormatWarning` if ``strict`` is false.
"""

from telerank.trec.columns import (
    load_qrels,
    read_qrels,
    read_run,
    write_json_lines,
    write_qrels,
    write_run,
    write_submission,
)
from telerank.trec.files import numbered_lines, open_to_write
from telerank.trec.topics import read_topics

__all__ = [
    "load_qrels",
    "numbered_lines",
    "open_to_write",
    "read_qrels",
    "read_run",
    "read_topics",
    "write_json_lines",
    "write_qrels",
    "write_run",
    "write_submission",
]
