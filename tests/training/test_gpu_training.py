"""A training on a GPU, asserted without one: what waits for the device, what is read beside it."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_training import hard_run, small_place, training  # noqa: E402

from small_ranking import dev_lists, ranking_training, small_ranking  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.models.encoders.bi_encoder import Side  # noqa: E402
from telerank.models.encoders.tokens import SideTokenizer  # noqa: E402
from telerank.models.losses.contrastive import in_batch_softmax, multi_label_margin  # noqa: E402
from telerank.models.rerankers.reranker import Shape, fresh_reranker  # noqa: E402
from telerank.training import loop as loops  # noqa: E402
from telerank.training import parallel  # noqa: E402
from telerank.training.ahead import BatchesAhead  # noqa: E402
from telerank.training.bi_encoder.dev import encode_side  # noqa: E402
from telerank.training.bi_encoder.train import train_bi_encoder  # noqa: E402
from telerank.training.log import read_log  # noqa: E402
from telerank.training.parallel import GradientSums, Processes  # noqa: E402
from telerank.training.reranker.config import RerankerLoss  # noqa: E402
from telerank.training.reranker.pair_logits import PairBatches, cut_batches  # noqa: E402
from telerank.training.reranker.task import ranking_loss  # noqa: E402
from telerank.training.reranker.train import train_reranker  # noqa: E402
from telerank.training.settings import OptimisationSettings, Training  # noqa: E402
from telerank.training.training import train  # noqa: E402

GPU, META = torch.device("cuda"), torch.device("meta")


@pytest.fixture
def beside(monkeypatch):
    """The loop as it is on a GPU: batches are read ahead, and losses fetched when they are needed."""
    monkeypatch.setattr(loops, "BatchesAhead", lambda make, _: BatchesAhead(make, GPU))


class Parabola:
    """A weight that falls to 0; at ``broken`` its loss, or at ``steep`` its gradient, is not a number."""

    examples = 8

    def __init__(self, broken=None, steep=None):
        self.modules = (torch.nn.Linear(1, 1, bias=False),)
        self.broken, self.steep, self.events = broken, steep, []

    def prepare(self, number, _progress):
        self.events.append(("prepare", number))

    def read(self, number):
        self.events.append(("read", number))
        return number

    def backward(self, number):
        self.events.append(("learn", number))
        (weight,) = self.modules[0].parameters()
        loss = (weight - number / 100).square().sum()
        loss.backward()
        if number == self.steep:
            weight.grad.fill_(float("nan"))
        return loss.detach() * (float("nan") if number == self.broken else 1)

    def dev(self, _progress):
        return None

    dev_loss = dev

    def save(self, folder):
        folder.mkdir()
        torch.save(self.modules[0].state_dict(), folder / "weights.pt")

    def state(self):
        return {}


def run(output, task, *, log_every=3, **optimisation):
    torch.manual_seed(0)
    own = {"steps": 8, "batch": 4, "learning_rate": 0.1, **optimisation}
    config = Training(optimisation=OptimisationSettings(**own), log_every=log_every, seed=3)
    train(config, output, lambda *_: task)
    return [(one.step, one.loss) for one in read_log(output / "log.jsonl")]


def test_the_next_batch_is_read_before_the_present_one_is_learned_from(tmp_path, beside):
    task = Parabola()
    run(tmp_path, task, steps=2, accumulation=2)
    reads = [number for what, number in task.events if what == "read"]
    assert reads == [0, 1, 2, 3]  # each once, and none beyond the last
    for number in range(3):
        prepared, learned = task.events.index(("prepare", number + 1)), task.events.index(("learn", number))
        assert prepared < learned
        assert prepared < task.events.index(("read", number + 1))


def test_losses_stay_on_the_device_until_they_are_logged(tmp_path, beside, monkeypatch):
    fetched = []
    fetch = loops.Loop._fetch_losses

    def counted(self):
        fetched.append(len(self._losses))
        fetch(self)

    monkeypatch.setattr(loops.Loop, "_fetch_losses", counted)
    run(tmp_path, Parabola())
    assert [count for count in fetched if count] == [3, 3, 2]


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_training_beside_a_device_has_the_same_log(tmp_path, monkeypatch, accumulation):
    plain = run(tmp_path / "plain", Parabola(), accumulation=accumulation)
    monkeypatch.setattr(loops, "BatchesAhead", lambda make, _: BatchesAhead(make, GPU))
    assert run(tmp_path / "beside", Parabola(), accumulation=accumulation) == plain


def test_a_loss_that_is_not_finite_is_named_when_it_is_logged_and_nothing_is_saved(tmp_path, beside):
    with pytest.raises(ModelError, match="the loss of update 3 is nan: try a lower learning rate"):
        run(tmp_path / "log", Parabola(broken=2), log_every=5)
    with pytest.raises(ModelError, match="the loss of update 3 is nan: try a lower learning rate"):
        run(tmp_path / "end", Parabola(broken=2), log_every=100)
    for folder in ("log", "end"):
        assert not (tmp_path / folder / "model").exists()
        assert not list((tmp_path / folder / "checkpoints").iterdir())


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    """The loss of the last update is finite, and its gradient is not."""
    with pytest.raises(ModelError, match="the weights after update 8 are not finite numbers"):
        run(tmp_path, Parabola(steep=7))
    assert not (tmp_path / "model").exists()
    assert not list((tmp_path / "checkpoints").iterdir())


def test_an_error_of_the_thread_is_raised_where_its_batch_is_taken():
    threads = []

    def make(number):
        threads.append(threading.current_thread())
        if number == 2:
            raise ModelError("no such batch")
        return number

    ahead = BatchesAhead(make, GPU)
    assert ahead.take(0) == 0
    ahead.begin(1)
    ahead.rest()
    assert len(threads) == 2
    assert threads[0] is threading.current_thread() is not threads[1]
    assert ahead.take(1) == 1
    ahead.begin(2)
    ahead.rest()
    with pytest.raises(ModelError, match="no such batch"):
        ahead.take(2)
    plain = BatchesAhead(make, torch.device("cpu"))
    plain.begin(1)
    assert len(threads) == 3
    assert plain.take(1) == 1


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return small_place(tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def ranking(tmp_path_factory):
    return small_ranking(tmp_path_factory.mktemp("ranking"))


def both(monkeypatch, start, config, folder):
    start(config, folder / "plain")
    monkeypatch.setattr(loops, "BatchesAhead", lambda make, _: BatchesAhead(make, GPU))
    start(config, folder / "beside")
    logs = [read_log(folder / name / "log.jsonl") for name in ("plain", "beside")]
    return [[(one.step, one.loss, one.dev, one.dev_loss) for one in log] for log in logs]


@pytest.mark.parametrize("chunk", [None, 4])
def test_a_bi_encoder_learns_the_same_from_batches_read_ahead(place, tmp_path, monkeypatch, chunk):
    hard = {"negatives": {"run": str(hard_run(tmp_path / "hard.run")), "depth": 5}}
    dev = {"split": "dev", "every": 3, "measure": "RR"}
    config = training(place, data=hard, optimisation={"batch": 10, "chunk": chunk}, dev=dev)
    plain, ahead = both(monkeypatch, train_bi_encoder, config, tmp_path)
    assert ahead == plain


@pytest.mark.parametrize(
    "model",
    [{"kind": "monobert"}, {"kind": "bert-dmn", "frozen": True, "head": {"hidden": 8, "episodes": 1}}],
)
def test_a_re_ranker_learns_the_same_from_batches_read_ahead(ranking, tmp_path, monkeypatch, model):
    """Negatives are drawn anew in each epoch, so that features are encoded while batches are read."""
    negatives = {"run": str(ranking / "train.run"), "per_positive": 2, "resample": True}
    config = ranking_training(
        ranking,
        model=model,
        data={"negatives": negatives},
        optimisation={"accumulation": 2, "batch": 5, "tokens": 100},
        dev=dev_lists(ranking, every=3, measure="MRR"),
    )
    plain, ahead = both(monkeypatch, train_reranker, config, tmp_path)
    assert ahead == plain


def test_batches_for_a_gpu_are_not_cut_at_two_thirds_of_the_longest_pair():
    lengths = [30, 100, 100, 60, 40]
    assert list(cut_batches(lengths, 1000, GPU)) == [[1, 2, 3, 4, 0]]
    assert list(cut_batches(lengths, 300, GPU)) == [[1, 2, 3], [4, 0]]
    assert list(cut_batches(lengths, 1000, torch.device("cpu"))) == [[1, 2], [3, 4], [0]]


def test_batches_for_a_gpu_have_lengths_of_eight_or_what_the_model_reads_at_most(ranking):
    texts = fresh_reranker(ranking / "encoder", Shape("monobert", max_query=8, max_length=30)).texts
    reranker = SimpleNamespace(device=GPU, texts=texts)
    pairs = [texts.pair(*texts.queries(["q1"]), texts.passages(["d1 " * count])[0]) for count in (9, 3, 40)]
    found = [batch.input_ids for batch in PairBatches.of(reranker, pairs, tokens=30).batches]
    assert [batch.shape for batch in found] == [(1, 30), (1, 16), (1, 8)]
    reranker.device = torch.device("cpu")
    plain = [batch.input_ids for batch in PairBatches.of(reranker, pairs, tokens=30).batches]
    assert [batch.shape for batch in plain] == [(1, 30), (1, 13), (1, 7)]
    tokenizer = SideTokenizer(texts.tokenizer, Side(max_length=30))
    widths = []

    def encode(batch):
        widths.append(batch["input_ids"].shape[1])
        return torch.zeros(len(batch["input_ids"]), 2)

    for device in (GPU, torch.device("cpu")):
        for count in (9, 40):
            encode_side(encode, tokenizer, ["d1 " * count], device=device)
    assert widths == [16, 30, 11, 30]


@pytest.mark.parametrize("objective", ["pointwise", "margin", "ranknet", "softmax", "margin-mse"])
def test_losses_of_re_rankers_depend_on_no_number_of_the_device(objective):
    """A tensor on ``meta`` has no numbers: what needs one, and so would wait for a GPU, is an error."""
    teacher = torch.randn(6, 4) if objective == "margin-mse" else None
    settings = RerankerLoss(objective=objective, teacher=None if teacher is None else "run")
    logits = torch.zeros(6, 4, device=META, requires_grad=True)
    loss = ranking_loss(settings, logits, teacher)
    loss.backward()
    assert loss.device == META
    assert loss.shape == ()


@pytest.mark.parametrize("loss", [multi_label_margin, in_batch_softmax])
def test_losses_of_bi_encoders_depend_on_no_number_of_the_device(loss):
    products = torch.zeros(6, 9, device=META, requires_grad=True)
    value = loss(products, torch.eye(6, 9, dtype=torch.bool))
    value.backward()
    assert value.device == META


def test_gradients_are_divided_all_at_once(tmp_path, monkeypatch):
    divided, divide = [], torch._foreach_div_
    monkeypatch.setattr(torch, "_foreach_div_", lambda many, by: divided.append(by) or divide(many, by))
    run(tmp_path, Parabola(), steps=4, accumulation=3)
    assert divided == [3] * 4


def test_summed_gradients_are_copied_back_all_at_once(monkeypatch):
    copied, copy = [], torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda to, given: copied.append(len(to)) or copy(to, given))

    def double(tensor, *_, **__):
        tensor.mul_(2 if tensor.is_floating_point() else 1)
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr(parallel.distributed, "all_reduce", double)
    weights = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((2, 3), (4,), (1, 5), (2,))]
    for number, weight in enumerate(weights[:3], 1):
        weight.grad = torch.full_like(weight, number)
    sums = GradientSums()
    sums.watch(Processes(0, 2), weights)
    sums.finish()
    assert copied == [3]
    for number, weight in enumerate(weights[:3], 1):
        assert torch.equal(weight.grad, torch.full_like(weight, 2 * number))
    assert weights[3].grad is None
