from __future__ import annotations

import pytest

from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError
from telerank.types import Doc, Qrel, Query

TOPICS = """<top>
<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate in international criminal activity.

<narr> Narrative:
A relevant document must as a minimum identify the organization.
</top>
<top>
<num> Number: 302
<title> Poliomyelitis
<desc> Description:
Is the disease of Poliomyelitis (polio) under control in the
world?
<narr> Narrative: Any.
</top>
"""


@pytest.fixture
def disks(tmp_path):
    for folder, docno, text in (
        ("ft/ft911", "FT911-1", "<HEADLINE>\nMafia\n</HEADLINE>\n<TEXT>\ncrime &amp; gangs\n</TEXT>"),
        ("latimes", "LA010189-0001", "<TEXT>\npolio is rare\n</TEXT>"),
        ("CR", "CR93E-1", "<TEXT>\nthe gentleman yields\n</TEXT>"),
    ):
        path = tmp_path / "disks" / folder
        path.mkdir(parents=True)
        (path / "1").write_text(f"<DOC>\n<DOCNO> {docno} </DOCNO>\n{text}\n</DOC>\n")
    (tmp_path / "disks" / "topics.robust04.txt").write_text(TOPICS)
    (tmp_path / "disks" / "qrels.robust2004.txt").write_text("301 0 FT911-1 1\n302 0 LA010189-0001 2\n")
    return tmp_path / "disks"


def test_its_queries_are_titles_or_descriptions_and_the_congressional_record_is_no_part_of_it(disks):
    collection = open_collection(disks)
    assert collection.format == "robust04"
    assert collection.splits == ("title", "description")
    assert list(collection.split_queries("title")) == [
        Query("301", "International Organized Crime"),
        Query("302", "Poliomyelitis"),
    ]
    assert list(collection.split_queries("description"))[1] == Query(
        "302", "Is the disease of Poliomyelitis (polio) under control in the world?"
    )
    for split in collection.splits:
        assert list(collection.split_qrels(split))[1] == Qrel("302", "LA010189-0001", 2)
    assert list(collection.docs()) == [
        Doc("FT911-1", "crime & gangs", "Mafia"),
        Doc("LA010189-0001", "polio is rare"),
    ]
    assert collection.unread == ("CR",)


def test_topics_and_qrels_alone_are_no_robust04_and_a_second_file_of_topics_is_refused(disks, tmp_path):
    (tmp_path / "topics").mkdir()
    for file in disks.glob("*.txt"):
        (tmp_path / "topics" / file.name).write_text(file.read_text())
    assert open_collection(tmp_path / "topics").format == "topics"
    (disks / "topics.robust05.txt").write_text(TOPICS)
    with pytest.raises(CollectionError, match="one file of topics and one of qrels, got topics"):
        open_collection(disks)
