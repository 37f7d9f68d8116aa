r"""Reading and writing of runs, qrels and topics, plain or compressed, streaming.

Files are UTF-8. A leading byte order mark and ``\r\n`` are accepted, and blank lines are skipped. Any other
line that does not follow its format raises a :class:`~telerank.errors.FormatError` with file and line. What
trec_eval reads all the same is read with a :class:`~telerank.errors.FormatWarning` if ``strict`` is false.
"""

from telerank.trec.columns import (
    QRELS_FORMATS,
    load_qrels,
    read_qrels,
    read_run,
    write_json_lines,
    write_qrels,
    write_run,
    write_submission,
)
from telerank.trec.files import (
    BOM,
    LONGEST,
    Conditions,
    Format,
    add_nearest,
    check_exists,
    check_id,
    decode,
    describe_json,
    first_value,
    holds,
    numbered_bytes,
    numbered_lines,
    open_bytes,
    open_packer,
    open_to_write,
    parse_json,
    parse_object,
    raw_lines,
)
from telerank.trec.topics import NUMBER, TOPICS_FORMATS, SmartRecord, read_records, read_topics, starts_smart

__all__ = [
    "BOM",
    "LONGEST",
    "NUMBER",
    "QRELS_FORMATS",
    "TOPICS_FORMATS",
    "Conditions",
    "Format",
    "SmartRecord",
    "add_nearest",
    "check_exists",
    "check_id",
    "decode",
    "describe_json",
    "first_value",
    "holds",
    "load_qrels",
    "numbered_bytes",
    "numbered_lines",
    "open_bytes",
    "open_packer",
    "open_to_write",
    "parse_json",
    "parse_object",
    "raw_lines",
    "read_qrels",
    "read_records",
    "read_run",
    "read_topics",
    "starts_smart",
    "write_json_lines",
    "write_qrels",
    "write_run",
    "write_submission",
]
