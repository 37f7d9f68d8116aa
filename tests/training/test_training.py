"""A bi-encoder is trained, killed, and trained on."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch
from small_training import ON_CPU, PAIRS, hard_run, losses, triples

from small_models import fingerprint_of, small_encoder
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError, FormatError, IndexDamaged, ModelError, UnlikelySetting
from telerank.models.encoders.folders import load_bi_encoder
from telerank.training.bi_encoder.config import BiEncoderStart, BiEncoderTraining
from telerank.training.bi_encoder.fine_tune import encode_texts, search
from telerank.training.bi_encoder.train import DenseLearner, open_bi_encoder, start_model, train_bi_encoder
from telerank.training.encoders.config import EncoderDev
from telerank.training.encoders.dev import read_dev
from telerank.training.encoders.train import EncoderJob
from telerank.training.log import Record
from telerank.training.settings import read_settings
from telerank.training.task import choose_device
from telerank.training.task import choose_precision as precision
from telerank.types import silent


def test_what_is_trained_finds_what_it_could_not_find_before(paired, pair_set, tmp_path):
    optimisation = {"steps": 60, "batch": 24, "accumulation": 1, "chunk": None}
    dev = {"split": "dev", "every": 20, "measures": "MRR@10"}
    rare = {"log_every": 20, "checkpoint_every": 99}
    config = paired(model={"dropout": 0.0}, optimisation=optimisation, dev=dev, **rare)
    records: list[Record] = []
    model = train_bi_encoder(config, tmp_path / "out", report=records.append)
    dev = read_dev(open_collection(pair_set / "collection"), config.dev, seed=0)
    before = dev.value(DenseLearner(*start_model(config.model, 0)), ON_CPU).measure
    after = dev.value(DenseLearner(*load_bi_encoder(model)), ON_CPU).measure
    assert before < 0.4
    assert after > 0.9
    assert after == max(record.dev for record in records)
    assert [record.step for record in records] == [20, 40, 60]
    assert records[-1].loss < records[0].loss
    assert records[-1].dev_loss < task_of(config, tmp_path / "out").dev_loss(silent) / 2
    assert records[-1].remaining == 0
    assert set(json.loads((tmp_path / "out" / "versions.json").read_text())) >= {"telerank", "torch"}


@pytest.mark.parametrize("says", ["modules", "similarity"])
def test_a_start_for_cosines_with_inner_products_gets_one_warning(paired, pair_set, tmp_path, says):
    folder = shutil.copytree(pair_set / "encoder", tmp_path / "cosine")
    parts = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in parts]
    (folder / "modules.json").write_text(json.dumps(modules if says == "modules" else modules[:2]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean"}))
    if says == "similarity":
        (folder / "config_sentence_transformers.json").write_text('{"similarity_fn_name": "cosine"}')
    with pytest.warns(UnlikelySetting, match="set model.similarity to cosine") as warned:
        task_of(paired(model={"start": str(folder)}), tmp_path / "out")
    assert len([warning for warning in warned if warning.category is UnlikelySetting]) == 1
    on_purpose = {"start": str(folder), "similarity": "inner_product"}
    task_of(paired(model=on_purpose), tmp_path / "other")  # a warning would be an error


def test_so_many_checkpoints_stay_and_what_no_update_differs_by_may_change_when_it_goes_on(paired, tmp_path):
    """Each checkpoint is a model with its settings."""
    config = paired(keep=2, optimisation={"steps": 6}, checkpoint_every=2)
    output = tmp_path / "out"

    def steps_left():
        return [int(path.name) for path in sorted((output / "checkpoints").iterdir())]

    train_bi_encoder(config, output)
    assert steps_left() == [4, 6]
    for folder in (output / "checkpoints").iterdir():
        assert read_settings(folder / "config.yaml", BiEncoderTraining) == config
        assert (folder / "versions.json").exists()
    whole = fingerprint_of(output / "model")
    assert fingerprint_of(output / "checkpoints" / "00000006") == whole
    shutil.rmtree(output / "checkpoints" / "00000006")
    others = {"device": "cpu", "keep": 3, "checkpoint_every": 1, "log_every": 3}
    changed = config.model_copy(update=others)
    train_bi_encoder(changed, output, resume=True)
    assert steps_left() == [4, 5, 6]
    assert read_settings(output / "config.yaml", BiEncoderTraining) == changed
    assert fingerprint_of(output / "model") == whole


def task_of(config, output):
    output.mkdir(exist_ok=True)
    torch.manual_seed(config.seed)
    return EncoderJob(config, open_bi_encoder, output, output).make_task(None, ON_CPU, silent)


def counts(output) -> dict[str, int]:
    return json.loads((output / "data.json").read_text())


def test_dev_of_the_trainings_own_split_is_kept_back(paired, tmp_path):
    task = task_of(paired(dev={"split": "train", "queries": 5, "every": 4}), tmp_path / "out")
    assert counts(tmp_path / "out")["queries"] == PAIRS - 5
    looked = {query.text for query in task.dev_set.queries}
    learned = {query for number in range(PAIRS) for query in task.batches[number].queries}
    assert (len(looked), len(learned)) == (5, PAIRS - 5)
    assert not looked & learned
    dev = {query for number in range(task.loss_set.count) for query in task.loss_set.batches[number].queries}
    assert dev == looked
    with pytest.raises(CollectionError, match="no query of split 'train' is left to learn from"):
        train_bi_encoder(paired(dev={"split": "train"}), tmp_path / "none")


def repeated(task, batch) -> float:
    """The loss of a batch, from vectors that are computed one text at a time."""
    model, tokenizers = task.encoder.module.eval(), task.encoder.tokenizers
    with torch.no_grad():
        queries = [model.encode_queries(tokenizers.queries([text])) for text in batch.queries]
        documents = [model.encode_documents(tokenizers.documents([text])) for text in batch.documents]
        return float(task.objective(torch.cat(queries), torch.cat(documents), batch))


def test_the_dev_loss_is_the_mean_over_batches_of_dev_without_dropout(paired, tmp_path):
    """24 pairs of dev, each with a negative, in batches of 5 queries: the last of 5 batches has one again."""
    data, dev = {"negatives": {"random": True}}, {"split": "dev", "every": 2}
    config = paired(data=data, dev=dev, optimisation={"batch": 10})
    task = task_of(config, tmp_path)
    batches = [task.loss_set.batches[number] for number in range(task.loss_set.count)]
    assert [len(batch.queries) for batch in (*batches, task.batches[0])] == [5] * 6
    assert {query for batch in batches for query in batch.queries} == {f"q{i}" for i in range(PAIRS)}
    assert all(len(batch.negatives) == 5 for batch in batches)
    task.encoder.module.train()
    random = torch.get_rng_state()
    first = task.dev_loss(silent)
    assert torch.equal(torch.get_rng_state(), random)
    assert task.encoder.module.training
    assert first == task.dev_loss(silent) == task_of(config, tmp_path).dev_loss(silent)
    assert first == pytest.approx(sum(repeated(task, batch) for batch in batches) / 5, rel=1e-5)
    assert counts(tmp_path)["dev loss: relevant pairs"] == PAIRS
    assert task_of(paired(), tmp_path).dev_loss(silent) is None
    by_loss = task_of(
        config.model_copy(update={"dev": config.dev.model_copy(update={"measures": "loss"})}), tmp_path
    )
    assert by_loss.dev_set is None
    assert by_loss.dev_loss(silent) == first


@pytest.mark.parametrize("source", ["nothing", "triples", "train run", "dev run"])
def test_the_dev_loss_has_the_negatives_of_the_training_or_else_those_of_the_batch(paired, tmp_path, source):
    """A run of the training's queries has no list for dev; one of both splits has."""
    run = hard_run(tmp_path / "hard.run")
    if source == "dev run":
        lines = run.read_text()
        run.write_text(lines + "".join(f"2{line[1:]}\n" for line in lines.splitlines()))
    data = triples(tmp_path / "t.tsv") if source == "triples" else {}
    data = {"negatives": {"run": str(run), "depth": 5}} if "run" in source else data
    task = task_of(paired(data=data, dev={"split": "dev"}), tmp_path)
    batch, own = task.loss_set.batches[0], source == "dev run"
    assert (len(batch.queries), len(batch.negatives)) == ((3, 3) if own else (6, 0))
    alone = ", without negatives besides their batch's"
    assert counts(tmp_path)[f"dev loss: relevant pairs{'' if own else alone}"] == PAIRS


@pytest.mark.parametrize("objective", ["classification", "cosine"])
def test_sentence_bert_learns_from_vectors_of_any_length_and_ranks_by_cosine(
    paired, ranked, tmp_path, objective
):
    """Equation 12 of the Piaf report is for ranking; the classifier sees (u, v, |u - v|) as pooled.

    Texts of uneven lengths are encoded in chunks of like ones.
    """
    lines = (f"q{i} {'x1 ' * (i % 3)}\td{i} {'x2 ' * (5 * i % 7)}\td{i + 9} x3\n" for i in range(20))
    (tmp_path / "texts.tsv").write_text("".join(lines))
    data = {"triples": {"file": str(tmp_path / "texts.tsv"), "window": 20}}
    model = {"similarity": "cosine", "dropout": 0.0}
    config = paired(model=model, data=data, loss={"objective": objective}, optimisation={"chunk": 2})
    task = task_of(config, tmp_path)
    batch, model, tokenizers = task.batches[0], task.encoder.module, task.encoder.tokenizers

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


def test_a_training_that_failed_at_its_data_can_be_begun_again(paired, tmp_path):
    with pytest.raises(CollectionError, match="no split 'elsewhere'"):
        train_bi_encoder(paired(data={"split": "elsewhere"}), tmp_path / "out")
    train_bi_encoder(paired(optimisation={"steps": 3}), tmp_path / "out")


def test_two_trainings_in_one_folder_are_refused(paired, tmp_path):
    from filelock import FileLock

    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(ModelError, match="another process is training"):
        train_bi_encoder(paired(), tmp_path / "out")


def test_two_towers_of_different_vocabularies_are_trained_and_open_elsewhere(paired, tmp_path):
    """BERT asks, RoBERTa answers; each knows the words by other numbers."""
    small_encoder(tmp_path / "roberta", "roberta", seed=1)
    config = paired(
        model={"towers": "two", "document_start": str(tmp_path / "roberta"), "dropout": 0.0},
        optimisation={"steps": 40, "batch": 24, "accumulation": 1, "learning_rate": 0.006, "chunk": None},
        dev={"split": "dev", "every": 40, "patience": 40, "measures": "RR"},
        log_every=40,
        checkpoint_every=99,
    )
    records: list[Record] = []
    folder = train_bi_encoder(config, tmp_path / "out", report=records.append)
    assert records[-1].dev > 0.8
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
    with pytest.raises(ModelError, match="cannot become one"):
        start_model(BiEncoderStart(start=str(folder)), 0)
    assert not start_model(BiEncoderStart(start=str(folder), towers="two"), 0)[0].shared
    began, _ = start_model(config.model, 0)
    fresh, _ = start_model(config.model.model_copy(update={"fresh": True}), 5)
    for other in (model, fresh):
        pairs = zip(other.named_parameters(), began.parameters(), strict=True)
        words = [(ours, theirs) for (name, ours), theirs in pairs if "word_embeddings" in name]
        assert [torch.equal(*both) for both in words] == [False, False]
    with pytest.raises(ValueError, match="document_start needs two towers"):
        BiEncoderStart(document_start="minilm")


@pytest.fixture(scope="module")
def trained(paired, tmp_path_factory):
    """A training of six updates, with a checkpoint of them."""
    output = tmp_path_factory.mktemp("trained") / "out"
    train_bi_encoder(paired(optimisation={"steps": 6}), output)
    return output


def test_a_checkpoint_has_tensors_and_json_alone(trained):
    (last,) = (trained / "checkpoints").glob("*6")
    files = [file for file in last.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} <= {".safetensors", ".json", ".yaml", ".txt"}
    assert not [file for file in files if file.read_bytes()[:2] in (b"PK", b"\x80\x04", b"\x80\x02")]
    record = json.loads((last / "manifest.json").read_text(), parse_constant=pytest.fail)
    assert (record["record"]["position"]["step"], record["record"]["processes"]) == (6, 1)


@pytest.fixture
def copied(paired, trained, tmp_path):
    """A copy of the training, and what resumes it."""
    output = shutil.copytree(trained, tmp_path / "out")

    def resume():
        train_bi_encoder(paired(optimisation={"steps": 6}), output, resume=True)

    return output / "checkpoints" / "00000006", resume


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
def test_a_damaged_checkpoint_is_named(name, damage, copied):
    last, resume = copied
    (last / name).write_bytes(damage((last / name).read_bytes()))
    with pytest.raises(IndexDamaged, match=f"00000006/{name}: damaged"):
        resume()


def test_a_checkpoint_of_another_version_is_refused(copied):
    last, resume = copied
    (last / "manifest.json").unlink()
    (last / "training.pt").write_bytes(b"PK\3\4 no")
    with pytest.raises(ModelError, match=r"00000006: .*another version of telerank wrote this"):
        resume()


@pytest.mark.parametrize(
    "line",
    ["[1]", '{"step": [1]}', "5", "null", "no JSON", "[" * 100_000, '{"step": %s}' % ("9" * 5000), "\xff"],
)
def test_a_log_that_is_none_is_named(line, copied):
    last, resume = copied
    log = last.parents[1] / "log.jsonl"
    log.write_bytes(log.read_bytes() + line.encode("latin-1") + b"\n")
    with pytest.raises(FormatError, match=r"log\.jsonl:7: expected a record with step and loss"):
        resume()


def test_a_dev_set_may_be_a_part(pair_set):
    collection = open_collection(pair_set / "collection")
    small = read_dev(collection, EncoderDev(split="dev", queries=3, documents=10), seed=1)
    assert (len(small.queries), len(small.documents)) == (3, 10)
    assert {docno for grades in small.qrels.values() for docno in grades} <= set(small.documents)
    again = read_dev(collection, EncoderDev(split="dev", queries=3, documents=10), seed=1)
    assert again.documents == small.documents
    judged = read_dev(collection, EncoderDev(split="dev", documents=1), seed=1)
    assert (len(judged.queries), len(judged.documents)) == (PAIRS, PAIRS)


def test_devices_and_precisions():
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ModelError, match="device 'abacus'"):
        choose_device("abacus")
    with precision("bfloat16", torch.device("cpu"))():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    with precision("auto", torch.device("cpu"))():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32


def test_fast_kernels_train_to_the_losses_of_float32_or_are_refused(paired, tmp_path):
    changes = {"model": {"dropout": 0.0}, "optimisation": {"steps": 4, "eps": 1e-4}}
    config = paired(**changes, precision="float32-fast")
    try:
        train_bi_encoder(config, tmp_path / "fast")
    except ModelError as error:
        assert "float32-fast" in str(error)  # noqa: PT017 — some processors have no such kernels
        return
    train_bi_encoder(paired(**changes, precision="float32"), tmp_path / "plain")
    assert losses(tmp_path / "fast") == pytest.approx(losses(tmp_path / "plain"), rel=1e-4)


def test_products_are_float32_whatever_the_encoder_computes_in(paired, pair_set):
    """In bfloat16 the best of many products are equal, and docnos decide."""
    dev = read_dev(open_collection(pair_set / "collection"), EncoderDev(split="dev", measures="RR"), seed=0)
    seen = []

    def half():
        seen.append(torch.is_autocast_enabled("cpu"))
        return torch.autocast("cpu", dtype=torch.bfloat16)

    learner = DenseLearner(*start_model(paired().model, 0))
    in_half = dev.value(learner, replace(ON_CPU, precision=half)).measure
    assert in_half == pytest.approx(dev.value(learner, ON_CPU).measure, abs=0.1)
    assert set(seen) == {False}
    with half():
        queries, documents = encode_texts(learner, dev.queries, dev.documents, torch.device("cpu"))
    assert queries.dtype is documents.dtype is torch.float32
    scores = next(search(dev.queries, tuple(dev.documents), (queries, documents))).scores
    assert len(set(scores.tolist())) == len(scores)
