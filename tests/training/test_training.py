"""A bi-encoder is trained, killed, and trained on."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_training import PAIRS, dev_losses, hard_run, losses, small_place, training, triples  # noqa: E402

from small_models import fingerprint_of, small_encoder  # noqa: E402
from telerank.corpus.formats import open_collection  # noqa: E402
from telerank.errors import (  # noqa: E402
    CollectionError,
    FormatError,
    IndexDamaged,
    MissingExtra,
    ModelError,
    UnlikelySetting,
)
from telerank.models.encoders.folders import load_bi_encoder  # noqa: E402
from telerank.training import checkpoint  # noqa: E402
from telerank.training.bi_encoder.config import BiEncoderDev, BiEncoderStart, BiEncoderTraining  # noqa: E402
from telerank.training.bi_encoder.dev import encode_texts, read_dev, search  # noqa: E402
from telerank.training.bi_encoder.train import BiEncoderJob, start_model, train_bi_encoder  # noqa: E402
from telerank.training.log import Record, append_record, cut_log  # noqa: E402
from telerank.training.parallel import Processes  # noqa: E402
from telerank.training.settings import read_settings  # noqa: E402
from telerank.training.task import TrainingDevice  # noqa: E402
from telerank.training.training import choose_device  # noqa: E402
from telerank.training.training import choose_precision as precision  # noqa: E402
from telerank.types import silent  # noqa: E402


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return small_place(tmp_path_factory.mktemp("place"))


def test_what_is_trained_finds_what_it_could_not_find_before(place, tmp_path):
    changes = {"optimisation": {"steps": 60, "batch": 24, "accumulation": 1}, "model": {"dropout": 0.0}}
    wanted = training(place, **changes, dev={"split": "dev", "every": 20, "measure": "MRR@10"}, log_every=20)
    told: list[Record] = []
    model = train_bi_encoder(wanted, tmp_path / "out", report=told.append)
    dev = read_dev(open_collection(place / "collection"), wanted.dev, seed=0)
    before = dev.value(*start_model(wanted.model, 0))
    after = dev.value(*load_bi_encoder(model))
    assert before < 0.4
    assert after > 0.9
    assert after == max(record.dev for record in told)
    assert [record.step for record in told] == [20, 40, 60]
    assert told[-1].loss < told[0].loss
    assert dev_losses(tmp_path / "out")[60] < task_of(wanted, tmp_path / "out").dev_loss(silent) / 2
    assert told[-1].remaining == 0
    assert set(json.loads((tmp_path / "out" / "versions.json").read_text())) >= {"telerank", "torch"}


@pytest.mark.parametrize("says", ["modules", "similarity"])
def test_a_start_for_cosines_with_inner_products_gets_one_warning(place, tmp_path, says):
    folder = shutil.copytree(place / "encoder", tmp_path / "cosine")
    parts = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in parts]
    (folder / "modules.json").write_text(json.dumps(modules if says == "modules" else modules[:2]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean"}))
    if says == "similarity":
        (folder / "config_sentence_transformers.json").write_text('{"similarity_fn_name": "cosine"}')
    short = {"steps": 2, "warm_up": 0}
    settings = training(place, model={"start": str(folder)}, optimisation=short)
    with pytest.warns(UnlikelySetting, match="set model.similarity to cosine") as warned:
        train_bi_encoder(settings, tmp_path / "out")
    assert len([warning for warning in warned if warning.category is UnlikelySetting]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnlikelySetting)
        on_purpose = {"start": str(folder), "similarity": "inner_product"}
        train_bi_encoder(training(place, model=on_purpose, optimisation=short), tmp_path / "other")


def test_chunks_change_the_memory_and_nothing_else(place, tmp_path):
    """``eps`` keeps Adam from enlarging gradients that are nothing but rounding."""
    still = {"model": {"dropout": 0.0}}
    for name, chunk in (("small", 2), ("whole", None)):
        wanted = training(place, **still, optimisation={"chunk": chunk, "eps": 1e-4})
        train_bi_encoder(wanted, tmp_path / name)
    small, whole = losses(tmp_path / "small"), losses(tmp_path / "whole")
    assert small == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("objective", ["softmax", "cosine"])
@pytest.mark.parametrize("towers", ["shared", "two"])
def test_every_objective_trains_one_tower_or_two(place, tmp_path, objective, towers):
    wanted = training(
        place,
        model={"towers": towers, "similarity": "cosine", "fresh": True},
        loss={"objective": objective, "scale": 20},
        optimisation={"epochs": 2.0, "steps": None},
    )
    model = train_bi_encoder(wanted, tmp_path / "out")
    assert len(losses(tmp_path / "out")) == 4  # 48 pairs, 12 of them to an update
    loaded, _ = load_bi_encoder(model)
    assert loaded.shared is (towers == "shared")
    assert loaded.settings.normalise
    began, _ = start_model(wanted.model, 0)
    changed = [
        not torch.equal(one, other)
        for (name, one), other in zip(loaded.named_parameters(), began.parameters(), strict=True)
        if "pooler" not in name and "word_embeddings" in name
    ]
    assert changed == [True] * (1 + (towers == "two"))


def test_training_stops_where_patience_is_over_and_keeps_the_best(place, tmp_path):
    """A rate of almost nothing never betters the first look."""
    changes = {"optimisation": {"learning_rate": 1e-12, "steps": 50}}
    wanted = training(place, **changes, dev={"split": "dev", "every": 2, "patience": 4}, log_every=50)
    told: list[Record] = []
    train_bi_encoder(wanted, tmp_path / "out", report=told.append)
    assert [record.step for record in told] == [2, 4, 6]
    assert (tmp_path / "out" / "checkpoints" / "00000006").is_dir()
    assert (tmp_path / "out" / "model").is_dir()
    again: list[Record] = []
    train_bi_encoder(wanted, tmp_path / "out", resume=True, report=again.append)
    assert again == []


def test_so_many_checkpoints_stay_and_each_is_a_model_with_its_settings(place, tmp_path):
    wanted = training(place, keep=2)
    train_bi_encoder(wanted, tmp_path / "out")
    left = sorted(path.name for path in (tmp_path / "out" / "checkpoints").iterdir())
    assert left == ["00000006", "00000008"]
    for name in left:
        folder = tmp_path / "out" / "checkpoints" / name
        assert read_settings(folder / "config.yaml", BiEncoderTraining) == wanted
        assert (folder / "versions.json").exists()
    assert fingerprint_of(folder) == fingerprint_of(tmp_path / "out" / "model")


def test_another_training_is_not_written_over(place, tmp_path):
    wanted = training(place, optimisation={"steps": 3})
    train_bi_encoder(wanted, tmp_path / "out")
    with pytest.raises(ModelError, match="holds a training: resume it"):
        train_bi_encoder(wanted, tmp_path / "out")
    with pytest.raises(ModelError, match=r"seed is 1, but the training in .* began with 0"):
        train_bi_encoder(wanted.model_copy(update={"seed": 1}), tmp_path / "out", resume=True)
    assert train_bi_encoder(wanted, tmp_path / "out", resume=True) == tmp_path / "out" / "model"


def test_what_no_update_differs_by_may_be_others_when_a_training_goes_on(place, tmp_path):
    wanted = training(place, optimisation={"steps": 6})
    train_bi_encoder(wanted, tmp_path / "whole")
    train_bi_encoder(wanted, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "checkpoints" / "00000006")
    others = {"device": "cpu", "keep": 3, "checkpoint_every": 1, "log_every": 3}
    changed = wanted.model_copy(update=others)
    train_bi_encoder(changed, tmp_path / "out", resume=True)
    left = sorted(path.name for path in (tmp_path / "out" / "checkpoints").iterdir())
    assert left == ["00000004", "00000005", "00000006"]
    assert read_settings(tmp_path / "out" / "config.yaml", BiEncoderTraining) == changed
    assert fingerprint_of(tmp_path / "out" / "model") == fingerprint_of(tmp_path / "whole" / "model")


def task_of(config, output):
    output.mkdir(exist_ok=True)
    hardware = TrainingDevice(torch.device("cpu"), nullcontext, Processes())
    torch.manual_seed(config.seed)
    return BiEncoderJob(config, output, output).make_task(None, hardware, silent)


def counts(output) -> dict[str, int]:
    return json.loads((output / "data.json").read_text())


def test_dev_of_the_trainings_own_split_is_kept_back(place, tmp_path):
    wanted = training(place, dev={"split": "train", "queries": 5, "every": 4})
    train_bi_encoder(wanted, tmp_path / "out")
    assert counts(tmp_path / "out")["queries"] == PAIRS - 5
    task = task_of(wanted, tmp_path / "out")
    looked = {query.text for query in task.dev_set.queries}
    learned = {query for number in range(PAIRS) for query in task.batches[number].queries}
    assert (len(looked), len(learned)) == (5, PAIRS - 5)
    assert not looked & learned
    dev = {query for number in range(task.loss_set.count) for query in task.loss_set.batches[number].queries}
    assert dev == looked
    with pytest.raises(CollectionError, match="no query of split 'train' is left to learn from"):
        train_bi_encoder(training(place, dev={"split": "train"}), tmp_path / "none")


def repeated(task, batch) -> float:
    """The loss of a batch, from vectors that are computed one text at a time."""
    model, tokenizers = task.model.eval(), task.tokenizers
    with torch.no_grad():
        queries = [model.encode_queries(tokenizers.queries([text])) for text in batch.queries]
        documents = [model.encode_documents(tokenizers.documents([text])) for text in batch.documents]
        return float(task.objective(torch.cat(queries), torch.cat(documents), batch))


def test_the_dev_loss_is_the_mean_over_batches_of_dev_without_dropout(place, tmp_path):
    """24 pairs of dev, each with a negative, in batches of 5 queries: the last of 5 batches has one again."""
    data, dev = {"negatives": {"random": True}}, {"split": "dev", "every": 2}
    config = training(place, data=data, dev=dev, optimisation={"batch": 10})
    task = task_of(config, tmp_path)
    batches = [task.loss_set.batches[number] for number in range(task.loss_set.count)]
    assert [len(batch.queries) for batch in (*batches, task.batches[0])] == [5] * 6
    assert {query for batch in batches for query in batch.queries} == {f"q{i}" for i in range(PAIRS)}
    assert all(len(batch.negatives) == 5 for batch in batches)
    task.model.train()
    random = torch.get_rng_state()
    first = task.dev_loss(silent)
    assert torch.equal(torch.get_rng_state(), random)
    assert task.model.training
    assert first == task.dev_loss(silent) == task_of(config, tmp_path).dev_loss(silent)
    assert first == pytest.approx(sum(repeated(task, batch) for batch in batches) / 5, rel=1e-5)
    assert counts(tmp_path)["dev loss: relevant pairs"] == PAIRS
    assert task_of(training(place), tmp_path).dev_loss(silent) is None


def test_documents_are_not_searched_if_the_dev_loss_decides(place, tmp_path):
    config = training(place, dev={"split": "dev"})
    dev = config.dev.model_copy(update={"measure": "loss"})
    task = task_of(config.model_copy(update={"dev": dev}), tmp_path)
    assert task.dev_set is None
    assert task.dev_loss(silent) > 0


@pytest.mark.parametrize("source", ["nothing", "triples", "train run", "dev run"])
def test_the_dev_loss_has_the_negatives_of_the_training_or_else_those_of_the_batch(place, tmp_path, source):
    """A run of the training's queries has no list for dev; one of both splits has."""
    run = hard_run(tmp_path / "hard.run")
    if source == "dev run":
        lines = run.read_text()
        run.write_text(lines + "".join(f"2{line[1:]}\n" for line in lines.splitlines()))
    data = triples(tmp_path / "t.tsv") if source == "triples" else {}
    data = {"negatives": {"run": str(run), "depth": 5}} if "run" in source else data
    task = task_of(training(place, data=data, dev={"split": "dev"}), tmp_path)
    batch, own = task.loss_set.batches[0], source == "dev run"
    assert (len(batch.queries), len(batch.negatives)) == ((3, 3) if own else (6, 0))
    alone = ", without negatives besides their batch's"
    assert counts(tmp_path)[f"dev loss: relevant pairs{'' if own else alone}"] == PAIRS


@pytest.mark.parametrize("objective", ["classification", "cosine"])
def test_sentence_bert_learns_from_vectors_of_any_length_and_ranks_by_cosine(place, tmp_path, objective):
    """Equation 12 of the Piaf report is for ranking; the classifier sees (u, v, |u - v|) as pooled."""
    config = training(
        place,
        model={"similarity": "cosine", "dropout": 0.0},
        data={"negatives": {"random": True}},
        loss={"objective": objective},
    )
    task = task_of(config, tmp_path)
    batch, model, tokenizers = task.batches[0], task.model, task.tokenizers

    def pooled(tokens, segment):
        mask = tokens["attention_mask"]
        types = torch.full_like(mask, segment)
        vectors = model.query_encoder(**tokens, token_type_ids=types).last_hidden_state
        return (vectors * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)

    with torch.no_grad():
        queries = pooled(tokenizers.queries(batch.queries), 0)
        documents = pooled(tokenizers.documents(batch.documents), 1)
    assert (queries.norm(dim=1) - 1).abs().min() > 0.1
    pairs = [(row, column, 1) for row, column in enumerate(batch.positives.tolist())]
    pairs += [(row, column, 0) for row, column in batch.negatives.tolist()]
    expected = []
    for row, column, label in pairs:
        u, v = queries[row], documents[column]
        if objective == "classification":
            logits = task.objective.loss.weight.weight @ torch.cat([u, v, (u - v).abs()])
            expected.append(-logits.log_softmax(0)[label].item())
        else:
            expected.append(((u @ v) / (u.norm() * v.norm()) - label).square().item())
    assert float(task.backward(task.read(0))) == pytest.approx(sum(expected) / len(expected), rel=1e-5)
    with torch.no_grad():
        ranked = model.encode_queries(tokenizers.queries(batch.queries))
    torch.testing.assert_close(ranked, queries / queries.norm(dim=1, keepdim=True))
    task.save(tmp_path / "model")
    assert load_bi_encoder(tmp_path / "model")[0].settings.normalise


def test_a_training_that_failed_at_its_data_can_be_begun_again(place, tmp_path):
    with pytest.raises(CollectionError, match="no split 'elsewhere'"):
        train_bi_encoder(training(place, data={"split": "elsewhere"}), tmp_path / "out")
    train_bi_encoder(training(place, optimisation={"steps": 3}), tmp_path / "out")


def test_two_trainings_in_one_folder_are_refused(place, tmp_path):
    from filelock import FileLock

    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(ModelError, match="another process is training"):
        train_bi_encoder(training(place), tmp_path / "out")


def test_a_loss_that_is_no_number_stops_the_training(place, tmp_path):
    wanted = training(place, optimisation={"learning_rate": 1e30, "warm_up": 0})
    with pytest.raises(ModelError, match=r"the loss of update \d is (nan|inf): try a lower learning rate"):
        train_bi_encoder(wanted, tmp_path / "out")


def test_epochs_shorter_than_the_warm_up_are_refused(place, tmp_path):
    wanted = training(place, optimisation={"epochs": 1.0, "steps": None})
    with pytest.raises(ModelError, match=r"warm_up \(2\) must be less than the 2 updates"):
        train_bi_encoder(wanted, tmp_path / "out")


def test_two_towers_do_not_become_one(place, tmp_path):
    two = training(place, model={"towers": "two"}, optimisation={"steps": 3})
    model = train_bi_encoder(two, tmp_path / "out")
    with pytest.raises(ModelError, match="cannot become one"):
        start_model(BiEncoderStart(start=str(model)), 0)
    assert not start_model(BiEncoderStart(start=str(model), towers="two"), 0)[0].shared


def test_two_towers_of_different_vocabularies_are_trained_and_open_elsewhere(place, tmp_path):
    """BERT asks, RoBERTa answers; each knows the words by other numbers."""
    small_encoder(tmp_path / "roberta", "roberta", seed=1)
    changes = {
        "model": {"towers": "two", "document_start": str(tmp_path / "roberta"), "dropout": 0.0},
        "optimisation": {"steps": 60, "batch": 24, "accumulation": 1},
    }
    wanted = training(place, **changes, dev={"split": "dev", "every": 20, "measure": "RR"})
    told: list[Record] = []
    folder = train_bi_encoder(wanted, tmp_path / "out", report=told.append)
    assert max(record.dev for record in told if record.dev is not None) > 0.8
    model, tokenizers = load_bi_encoder(folder)
    texts = ["q1 q2", "d3", "x1 x2 x3 x4 x5 x6 x7"]
    assert tokenizers.queries.ids(texts) != tokenizers.documents.ids(texts)
    types = model.query_encoder.config.model_type, model.document_encoder.config.model_type
    assert types == ("bert", "roberta")
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    with torch.no_grad():
        queries = model.encode_queries(tokenizers.queries(texts)).numpy()
        documents = model.encode_documents(tokenizers.documents(texts)).numpy()
    assert queries == pytest.approx(theirs.encode_query(texts), abs=1e-6)
    assert documents == pytest.approx(theirs.encode_document(texts), abs=1e-6)
    with pytest.raises(ValueError, match="document_start needs two towers"):
        BiEncoderStart(document_start="minilm")


def test_curves_are_written_for_tensorboard_and_go_on_after_a_pause(place, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    wanted = training(place, tensorboard=True, dev={"split": "dev", "every": 4})
    train_bi_encoder(wanted, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "checkpoints" / "00000008")
    train_bi_encoder(wanted, tmp_path / "out", resume=True)
    read = events.EventAccumulator(str(tmp_path / "out" / "tensorboard"))
    read.Reload()
    curve = {one.step: one.value for one in read.Scalars("loss")}
    assert curve == pytest.approx(losses(tmp_path / "out"))
    assert [one.step for one in read.Scalars("loss")] == list(range(1, 9))
    assert [one.step for one in read.Scalars("dev")] == [4, 8]
    assert len(read.Scalars("learning_rate")) == 8


def test_tensorboard_that_is_not_there_is_named_before_anything_is_read(place, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"'tensorboard': pip install 'telerank\[tensorboard\]'"):
        train_bi_encoder(training(place, tensorboard=True, data={"split": "no"}), tmp_path / "out")
    assert not (tmp_path / "out" / "config.yaml").exists()


def test_what_a_killed_writer_left_is_swept(tmp_path):
    (tmp_path / "checkpoints" / "00000003.writing").mkdir(parents=True)
    (tmp_path / "model.old.writing").mkdir()
    (tmp_path / "model.writing").mkdir()
    (tmp_path / "log.jsonl.writing").touch()
    checkpoint.sweep_output(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["checkpoints", "model"]


@pytest.fixture(scope="module")
def trained(place, tmp_path_factory):
    """A training of six updates, with a checkpoint of them."""
    output = tmp_path_factory.mktemp("trained") / "out"
    train_bi_encoder(training(place, optimisation={"steps": 6}), output)
    return output


def test_a_checkpoint_has_tensors_and_json_alone(trained):
    (last,) = (trained / "checkpoints").glob("*6")
    files = [file for file in last.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} <= {".safetensors", ".json", ".yaml", ".txt"}
    assert not [file for file in files if file.read_bytes()[:2] in (b"PK", b"\x80\x04", b"\x80\x02")]
    record = json.loads((last / "manifest.json").read_text(), parse_constant=pytest.fail)
    assert (record["record"]["position"]["step"], record["record"]["processes"]) == (6, 1)


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGE = {
    "flipped": flip,
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "pickled": lambda _: b"\x80\x04\x95.",
    "nested": lambda _: b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize(
    "name", ["training.safetensors", "manifest.json", "model.safetensors", "config.json"]
)
def test_a_damaged_checkpoint_is_named(name, damage, place, trained, tmp_path):
    output = shutil.copytree(trained, tmp_path / "out")
    (last,) = (output / "checkpoints").glob("*6")
    (last / name).write_bytes(damage((last / name).read_bytes()))
    with pytest.raises(IndexDamaged, match=f"00000006/{name}: damaged"):
        train_bi_encoder(training(place, optimisation={"steps": 6}), output, resume=True)


def test_a_checkpoint_of_another_version_is_refused(place, trained, tmp_path):
    output = shutil.copytree(trained, tmp_path / "out")
    (last,) = (output / "checkpoints").glob("*6")
    (last / "manifest.json").unlink()
    (last / "training.pt").write_bytes(b"PK\3\4 no")
    with pytest.raises(ModelError, match=r"00000006: .*another version of telerank wrote this"):
        train_bi_encoder(training(place, optimisation={"steps": 6}), output, resume=True)


@pytest.mark.parametrize(
    "line",
    ["[1]", '{"step": [1]}', "5", "null", "no JSON", "[" * 100_000, '{"step": %s}' % ("9" * 5000), "\xff"],
)
def test_a_log_that_is_none_is_named(line, place, trained, tmp_path):
    output = shutil.copytree(trained, tmp_path / "out")
    log = output / "log.jsonl"
    log.write_bytes(log.read_bytes() + line.encode("latin-1") + b"\n")
    with pytest.raises(FormatError, match=r"log\.jsonl:7: expected a record with step and loss"):
        train_bi_encoder(training(place, optimisation={"steps": 6}), output, resume=True)


def test_the_log_is_cut_where_training_goes_on(tmp_path):
    for step in (1, 2, 3):
        append_record(tmp_path / "log.jsonl", Record(step, 0.5, 1e-3, 1.0, 2.0))
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 2, "lo')
    cut_log(tmp_path / "log.jsonl", 2)
    assert [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 2]


def test_a_dev_set_may_be_a_part(place):
    collection = open_collection(place / "collection")
    small = read_dev(collection, BiEncoderDev(split="dev", queries=3, documents=10), seed=1)
    assert (len(small.queries), len(small.documents)) == (3, 10)
    assert {docno for grades in small.qrels.values() for docno in grades} <= set(small.documents)
    assert (
        read_dev(collection, BiEncoderDev(split="dev", queries=3, documents=10), seed=1).documents
        == small.documents
    )
    judged = read_dev(collection, BiEncoderDev(split="dev", documents=1), seed=1)
    assert (len(judged.queries), len(judged.documents)) == (PAIRS, PAIRS)


def test_devices_and_precisions():
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ModelError, match="device 'abacus'"):
        choose_device("abacus")
    with precision("bfloat16", torch.device("cpu"))():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    with precision("auto", torch.device("cpu"))():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32


def test_bfloat16_trains(place, tmp_path):
    model = train_bi_encoder(
        training(place, precision="bfloat16", optimisation={"steps": 3}), tmp_path / "out"
    )
    assert {one.dtype for one in load_bi_encoder(model)[0].parameters()} == {torch.float32}


def test_fast_kernels_train_to_the_losses_of_float32_or_are_refused(place, tmp_path):
    changes = {"model": {"dropout": 0.0}, "optimisation": {"steps": 4, "eps": 1e-4}}
    wanted = training(place, **changes, precision="float32-fast")
    try:
        train_bi_encoder(wanted, tmp_path / "fast")
    except ModelError as error:
        assert "float32-fast" in str(error)  # noqa: PT017 — some processors have no such kernels
        return
    train_bi_encoder(training(place, **changes, precision="float32"), tmp_path / "plain")
    assert losses(tmp_path / "fast") == pytest.approx(losses(tmp_path / "plain"), rel=1e-4)


def test_products_are_float32_whatever_the_encoder_computes_in(place):
    """In bfloat16 the best of many products are equal, and docnos decide."""
    wanted = training(place)
    dev = read_dev(open_collection(place / "collection"), BiEncoderDev(split="dev", measure="RR"), seed=0)
    seen = []

    def half():
        seen.append(torch.is_autocast_enabled("cpu"))
        return torch.autocast("cpu", dtype=torch.bfloat16)

    model = start_model(wanted.model, 0)
    assert dev.value(*model, half) == pytest.approx(dev.value(*model), abs=0.1)
    assert seen == [False]
    with half():
        queries, documents = encode_texts(*model, dev.queries, dev.documents)
    assert queries.dtype is documents.dtype is torch.float32
    scores = next(search(dev.queries, tuple(dev.documents), queries, documents)).scores
    assert len(set(scores.tolist())) == len(scores)
