"""Readers learn from question-answering sets: what they learn from, in which order, resumed, measured."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from reader_place import LENGTHS, squad_file
from small_training import ON_CPU, losses

import telerank as tr
from telerank.corpus.derived.articles import ArticleParts, article_name, is_parted_by, write_parts
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, FormatError, IndexDamaged, ModelError
from telerank.models.pairs.pair import PASSAGE, batch_of
from telerank.models.readers import fresh_reader, load_reader
from telerank.training.parallel import Processes
from telerank.training.reader.config import ArticleShares, QuestionSource
from telerank.training.reader.questions import describe_left_out, read_questions
from telerank.training.reader.train import FIT, ReaderTask, make_reader_task, span_loss, train_reader
from telerank.training.reader.windows import WindowOrder, open_windows
from telerank.types import Doc, silent

SHARES = ArticleShares(test=0.25, dev=0.25, seed=10)


@pytest.fixture(scope="session")
def questions(question_set):
    """Reads the questions of a set, with settings."""

    def read(name="one.json", **settings):
        return read_questions(QuestionSource(collection=str(question_set / name), **settings), SHARES, 0)

    return read


@pytest.fixture(scope="session")
def small(asking):
    """Makes a reader, with changes."""

    def make(**changes):
        model = asking(model=changes).model
        return fresh_reader(model.start, model.settings, seed=0, dropout=0.0)

    return make


def test_an_article_is_in_the_same_part_of_every_set():
    parts = ArticleParts(0.3, 0.2, seed=1)
    for title in ("Casablanca (film)", "casablanca-(film)"):
        assert article_name(Doc("0-1", "", title), "set") == "casablanca film"
    assert article_name(Doc("3-1", "", "<i>Été</i>"), "set") == "été"
    assert article_name(Doc("3-1", "", ""), "set") == article_name(Doc("3-2", "", ""), "set") == "set/3"
    counts = Counter(parts.part_of(f"article {n}") for n in range(2000))
    assert counts["test"] == pytest.approx(600, abs=60)
    assert counts["dev"] == pytest.approx(400, abs=60)
    with pytest.raises(ValueError, match="leave none for training"):
        ArticleParts(0.5, 0.5)
    with pytest.raises(ValueError, match="only: expected one of train, dev, test, got 'tset'"):
        ArticleParts(only="tset")


def test_a_set_is_written_in_parts_of_whole_articles(questions, question_set, tmp_path):
    parts = ArticleParts(0.25, 0.25, 10)
    sources = [open_collection(question_set / name) for name in ("one.json", "two.json")]
    write_parts(sources, parts, tmp_path / "parted")
    assert is_parted_by(tmp_path / "parted", parts)
    assert not is_parted_by(tmp_path / "parted", ArticleParts(0.25, 0.25, 11))
    write_parts(sources, replace(parts, only="test"), tmp_path / "test-alone")
    alone = open_collection(tmp_path / "test-alone")
    parted = open_collection(tmp_path / "parted")
    assert [doc.docno for doc in alone.docs()] == [
        doc.docno.removeprefix("test-") for doc in parted.docs() if doc.docno.startswith("test-")
    ]
    assert set(parted.splits) == {"train", "dev", "test"}
    assert len(list(parted.docs())) == 32
    titles = []
    for part in ("train", "dev", "test"):
        reads = [read for name in ("one.json", "two.json") for read in questions(name, part=part).questions]
        assert {query.qid for query in parted.split_queries(part)} == {read.query.qid for read in reads}
        titles += {read.doc.title for read in reads}
    assert len(titles) == len(set(titles)) == 8  # whole articles
    impossible = [qid for qid in parted.contexts["train"]() if qid.endswith("no")]
    assert impossible
    again = read_questions(QuestionSource(collection=str(tmp_path / "parted"), split="train"), SHARES, 0)
    assert sum(not q.answers for q in again.questions) == len(impossible)
    with pytest.raises(CollectionError, match="comes twice"):
        write_parts([sources[0], sources[0]], parts, tmp_path / "twice")


def test_unrelated_texts_without_a_title_are_of_the_part_of_their_set(questions, question_set, tmp_path):
    record = json.loads((question_set / "two.json").read_text())
    untitled = [{"paragraphs": article["paragraphs"]} for article in record["data"]]
    path = tmp_path / "untitled.json"
    path.write_text(json.dumps({"data": untitled}))
    for part in ("train", "test"):
        own = {q.doc.text for q in questions(path, part=part).questions}
        read = questions(unrelated=1.0, unrelated_from=str(path), part=part)
        added = {q.doc.text for q in read.questions if q.unrelated}
        assert added
        assert added <= own


def test_piaf_is_the_one_that_is_installed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    read = read_questions(QuestionSource(collection="piaf", part="test", questions=5), ArticleShares(), 0)
    assert len(read.questions) == 5


def test_questions_without_an_answer_have_their_text(questions):
    read = questions("two.json")
    without = [q for q in read.questions if not q.answers]
    assert read.counts == {"questions": 64, "without an answer": 16}
    assert {q.query.qid.split("-")[1] for q in without} == {q.doc.title.split()[1] for q in without}
    assert all(q.answers for q in questions("two.json", unanswerable=False).questions)


def test_a_smaller_number_of_questions_is_part_of_a_larger_one(questions):
    few, more = ({q.query.qid for q in questions(questions=n).questions} for n in (7, 20))
    assert (len(few), len(more)) == (7, 20)
    assert few < more


def test_unrelated_texts_are_of_other_articles_and_have_no_answer(questions):
    read = questions(unrelated=0.5)
    added = [q for q in read.questions if q.unrelated]
    assert read.counts["unrelated texts"] == len(added) == 24
    asked = {q.query.qid: q for q in read.questions if not q.unrelated}
    for question in added:
        own = asked[question.query.qid]
        assert question.doc.title != own.doc.title
        assert own.answers[0].text not in question.doc.text
        assert not question.answers
    assert set(read.gold.questions) == set(asked)


def test_answers_that_stand_nowhere_are_counted_and_named(tmp_path):
    squad_file(tmp_path / "wrong.json", wrong=("wrong-0-0-1", "wrong-2-1-0"))
    read = read_questions(QuestionSource(collection=str(tmp_path / "wrong.json")), SHARES, 0)
    assert read.counts["questions whose answer does not occur"] == 2
    assert len(read.questions) == 46
    (line,) = describe_left_out([read])
    assert "wrong.json: 2 questions are left out, as no answer occurs in their text" in line
    assert line.endswith(": wrong-0-0-1, wrong-2-1-0")
    parts = [
        read_questions(QuestionSource(collection=str(tmp_path / "wrong.json"), part=part), SHARES, 0)
        for part in ("train", "dev", "test")
    ]
    assert sorted(qid for own in parts for qid in own.left_out) == ["wrong-0-0-1", "wrong-2-1-0"]
    for own in parts:
        assert own.counts.get("questions whose answer does not occur", 0) == len(own.left_out)


def test_only_moved_answers_that_are_learned_from_are_counted(asking, tmp_path):
    """By set and by part; with several sets, the training says how many of each."""
    for name, wrong in (("mine", range(8)), ("yours", range(2))):
        record = json.loads(squad_file(tmp_path / f"{name}.json").read_text())
        for article in wrong:
            record["data"][article]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 1
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    sources = [QuestionSource(collection=str(tmp_path / f"{name}.json")) for name in ("mine", "yours")]
    parts = ("train", "dev", "test")
    own = [read_questions(sources[0].model_copy(update={"part": part}), SHARES, 0) for part in parts]
    moved = [read.counts.get("answers moved", 0) for read in own]
    assert sum(moved) == 8
    assert moved == [len({question.doc.title for question in read.questions}) for read in own]
    for question in (question for read in own for question in read.questions):
        for answer in question.answers:
            assert question.doc.text[answer.start : answer.end] == answer.text
    few = read_questions(sources[0].model_copy(update={"questions": 1}), SHARES, 0)
    assert few.counts.get("answers moved", 0) <= 1
    training = asking(data={"sets": [source.model_dump() for source in sources]})
    make_reader_task(None, ON_CPU, silent, config=training, output=tmp_path, shared=tmp_path)
    counts = json.loads((tmp_path / "data.json").read_text())
    named = {name: count for name, count in counts.items() if name.startswith("answers moved")}
    assert named == {"answers moved": 10, "answers moved, mine.json": 8, "answers moved, yours.json": 2}


def test_sets_that_cannot_be_learned_from_are_refused(question_set, tmp_path):
    (tmp_path / "docs.jsonl").write_text('{"id": "d", "text": "x"}\n')
    with pytest.raises(CollectionError):
        read_questions(QuestionSource(collection=str(tmp_path / "docs.jsonl")), SHARES, 0)
    with pytest.raises(CollectionError, match="no question of the part 'test' can be read"):
        read_questions(
            QuestionSource(collection=str(question_set / "one.json"), part="test"), ArticleShares(test=0), 0
        )


def test_windows_hold_the_answer_or_have_none(questions, small, tmp_path):
    reader = small()
    sets = [questions(), questions("two.json", unrelated=0.25)]
    windows = open_windows(tmp_path, reader, sets, 0)
    assert windows.counts["windows"] == len(windows)
    vocabulary = reader.texts.tokenizer.convert_ids_to_tokens
    held = 0
    for row in range(len(windows)):
        pair, (start, end) = windows.pair(row), windows.answer(row)
        tokens = vocabulary(pair.ids.tolist())
        assert len(pair) == windows.lengths[row] <= LENGTHS["max_length"]
        asked = next(token for token in tokens if token[0] == "q")
        inside = [n for n, token in enumerate(tokens) if token == f"d{asked[1:]}"]
        if start:
            held += 1
            assert (start, end) == (inside[0], inside[0])
            assert pair.parts[start] == PASSAGE
        else:
            assert inside == []  # these words come once in a text
            assert end == 0
    assert held == windows.counts["windows with the answer"] >= 96


def test_few_windows_without_the_answer_can_be_kept(questions, small, tmp_path):
    reader = small(max_length=9, max_question=1, stride=1)
    every = open_windows(tmp_path, reader, [questions()], 0)
    few = open_windows(tmp_path, reader, [questions(other_windows=1)], 0)
    none = open_windows(tmp_path, reader, [questions(other_windows=0)], 0)
    held = [own.counts["windows with the answer"] for own in (every, few, none)]
    assert len(set(held)) == 1
    assert len(none) == held[0] < len(few) <= held[0] + 48 < len(every)


def test_windows_are_made_once_and_mapped(questions, small, tmp_path):
    reader, sets, seen = small(), [questions()], []
    open_windows(tmp_path, reader, sets, 0, lambda label, *_: seen.append(label))
    assert seen
    seen.clear()
    windows = open_windows(tmp_path, reader, sets, 0, lambda label, *_: seen.append(label))
    assert not seen
    (ids,) = tmp_path.glob("*/ids.npy")
    assert isinstance(windows.ids.base, np.memmap) or isinstance(windows.ids, np.memmap)
    open_windows(tmp_path, small(stride=3), sets, 0)
    open_windows(tmp_path, reader, [questions(questions=9)], 0)
    assert len(list(tmp_path.iterdir())) == 3
    ids.write_bytes(ids.read_bytes()[:-4])
    with pytest.raises(IndexDamaged, match=r"ids\.npy: damaged"):
        open_windows(tmp_path, reader, sets, 0)


def order(weights=(1.0, 0.5), size=4, seed=0, rows=(30, 20)):
    lengths = np.random.default_rng(0).integers(5, 50, sum(rows))
    sets = np.repeat(np.arange(len(rows)), rows)
    return WindowOrder(lengths, sets, weights, size=size, seed=seed), lengths


def test_an_epoch_has_each_set_by_its_weight():
    own, _ = order((1.0, 0.5))
    assert own.epoch_length == 40
    rows = np.concatenate([own[n] for n in range(20)])  # two epochs
    for epoch in (rows[:40], rows[40:]):
        counts = Counter(epoch.tolist())
        assert [counts[row] for row in range(30)] == [1] * 30
        assert sum(counts[row] for row in range(30, 50)) == 10
    assert set(rows[rows >= 30].tolist()) == set(range(30, 50))  # each once in two epochs
    twice, _ = order((1.0, 1.5))
    counts = Counter(np.concatenate([twice[n] for n in range(15)]).tolist())
    assert {counts[row] for row in range(30, 50)} == {1, 2}


def test_every_epoch_is_whole_whatever_the_batch():
    own, _ = order((1.0, 1.0), size=7)
    rows = np.concatenate([own[n] for n in range(50)])[:350].reshape(7, 50)
    assert all(sorted(epoch.tolist()) == list(range(50)) for epoch in rows)


def test_a_batch_has_windows_of_similar_lengths():
    own, lengths = order((1.0, 1.0), rows=(3000, 1000), size=8)
    spread = np.mean([np.ptp(lengths[own[n]]) for n in range(500)])
    assert spread < 5 < np.ptp(lengths)


def test_the_loss_is_that_of_start_and_end_over_the_context_and_no_answer(questions, small, tmp_path):
    reader = small()
    windows = open_windows(tmp_path, reader, [questions()], 0)
    pairs = [windows.pair(row) for row in range(3)]
    batch = batch_of(pairs, reader.texts.pad_id)
    logits = torch.randn(3, batch.input_ids.shape[1], 2)
    targets = torch.tensor([windows.answer(0), (0, 0), windows.answer(2)])
    expected = 0.0
    for row, pair in enumerate(pairs):
        places = [0, *np.flatnonzero(pair.parts == PASSAGE).tolist()]
        for side in (0, 1):
            own = logits[row, places, side]
            expected += float(own.logsumexp(0) - logits[row, targets[row, side], side]) / 2
    assert float(span_loss(logits, batch, targets)) == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def trained(asking, tmp_path_factory):
    """The model of a training whose loss falls well below that of a guess, which is above 2."""
    optimisation = {"steps": 40, "learning_rate": 0.01, "batch": 16}
    config = asking(optimisation=optimisation, model={"dropout": 0.0}, checkpoint_every=99)
    return train_reader(config, tmp_path_factory.mktemp("trained") / "out")


def test_a_reader_learns_and_opens_in_transformers(trained):
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    values = [*losses(trained.parent).values()]
    assert len(values) == 40
    assert np.mean(values[-5:]) < 0.7 * np.mean(values[:5])
    theirs = AutoModelForQuestionAnswering.from_pretrained(trained)
    AutoTokenizer.from_pretrained(trained)
    assert type(theirs) is type(load_reader(trained).model)
    assert load_reader(trained).settings.max_answer == 4
    counts = json.loads((trained.parent / "data.json").read_text())
    assert (counts["questions"], counts["without an answer"]) == (112, 16)
    assert counts["windows"] >= 112


def test_seeds_change_the_order_and_frozen_embeddings_stay(small, asking, trained, tmp_path):
    frozen = {"frozen_embeddings": True}
    models = [
        train_reader(asking(seed=seed, model=frozen, optimisation={"steps": 3}), tmp_path / f"{seed}")
        for seed in (0, 1)
    ]
    assert losses(models[0].parent) != losses(models[1].parent)
    before = small().model.get_input_embeddings().weight
    assert torch.equal(load_reader(models[0]).model.get_input_embeddings().weight, before)
    assert not torch.equal(load_reader(trained).model.get_input_embeddings().weight, before)


def test_a_training_starts_from_a_reader_of_ours(asking, trained, tmp_path):
    few = {"learning_rate": 1e-9, "steps": 3}
    config = asking(model={"start": str(trained)}, optimisation=few)
    second = train_reader(config, tmp_path / "second")
    layers = [load_reader(model).model.qa_outputs.weight for model in (trained, second)]
    assert torch.allclose(*layers, atol=1e-6)


def test_more_processes_than_windows_are_refused(questions, small, asking, tmp_path):
    many = replace(ON_CPU, processes=Processes(0, 9))
    windows = open_windows(tmp_path, small(), [questions()], 0)
    with pytest.raises(ModelError, match="6 windows for 9 processes"):
        ReaderTask(asking(), small(), windows, None, many)


def test_dev_questions_choose_the_model_and_fit_it(asking, question_set, tmp_path):
    dev = {"sets": [{"collection": str(question_set / "two.json"), "part": "dev"}], "every": 2, "patience": 8}
    sets = [{"collection": str(question_set / name), "part": "train"} for name in ("one.json", "two.json")]
    config = asking(data={"sets": sets}, dev={**dev, "measures": "F1(fr)"}, articles=SHARES.model_dump())
    model = train_reader(config, tmp_path / "out")
    measured = losses(tmp_path / "out", "dev")
    assert sorted(measured) == [2, 4, 6, 8]
    assert all(0 <= value <= 1 for value in measured.values())
    fit = json.loads((tmp_path / "out" / FIT).read_text())
    settings = load_reader(model).settings
    assert fit["measure"] == "F1(fr)"
    assert settings.threshold == fit["threshold"] is not None
    assert settings.temperature == pytest.approx(fit["temperature"])
    assert train_reader(config, tmp_path / "out", resume=True) == model


def test_without_unanswerable_dev_questions_there_is_no_threshold(asking, question_set, tmp_path):
    dev = {
        "sets": [{"collection": str(question_set / "one.json"), "questions": 12}],
        "every": 8,
        "patience": 8,
    }
    model = train_reader(asking(dev=dev), tmp_path / "out")
    assert load_reader(model).settings.threshold is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": {"sets": []}}, "data.sets"),
        ({"data": {"sets": [{"collection": "x", "part": "test"}]}}, "the part test is not learned from"),
        ({"data": {"sets": [{"collection": "x", "weight": 0}]}}, "weight"),
        ({"data": {"sets": [{"colection": "x"}]}}, "did you mean 'collection'"),
        ({"model": {"max_answer": 0}}, "max_answer"),
        ({"articles": {"test": 0.6, "dev": 0.4}}, "leave no article for training"),
        ({"dev": {"sets": [{"collection": "x"}], "measures": "AP"}}, "'AP' is not a measure of answers"),
        ({"dev": {"sets": [{"collection": "x"}], "measures": "EM F1"}}, "expected one measure"),
        ({"dev": {"sets": [{"collection": "x"}], "every": 10, "patience": 5}}, "patience"),
    ],
)
def test_wrong_settings_are_refused_in_a_line(tmp_path, changes, words):
    with pytest.raises(FormatError) as error:
        tr.train("reader", {"data": {"sets": [{"collection": "x"}]}, **changes}, tmp_path / "out")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_the_verb_and_the_command_train(asking, tmp_path, monkeypatch):
    import yaml
    from click.testing import CliRunner

    from telerank.cli.main import app

    wrong = [f"wrong-{a}-{p}-1" for a in range(3) for p in range(2)]
    squad_file(tmp_path / "wrong.json", wrong=wrong)
    record = asking(data={"sets": [{"collection": str(tmp_path / "wrong.json")}]})
    (tmp_path / "reader.yaml").write_text(yaml.safe_dump(record.model_dump(mode="json")))
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["train", "reader", "reader.yaml", "-o", "out"], catch_exceptions=False)
    assert shown.exit_code == 0
    said = "wrong.json: 6 questions are left out, as no answer occurs in their text: "
    assert f"{said}{', '.join(wrong[:5])} …\n" in shown.stderr
    assert (tmp_path / "out" / "left-out.txt").read_text().endswith(f"{said}{', '.join(wrong)}\n")
    assert "windows with the answer" in shown.stderr
    answers = tr.reader(tmp_path / "out" / "model").answer("q1", ["d1 x2 x3"])
    assert answers.query.text == "q1"
