"""Runs side by side write the records that they write alone, whatever their neighbours do."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from calibkit_companion import data
from calibkit_companion.experiments import plan
from calibkit_companion.experiments.method import parse
from calibkit_companion.records import folders
from calibkit_companion.training import loop, side_by_side, turns
from calibkit_companion.training.graph import Steps, Tape
from tests.test_loop import same_bytes

SMOKE = plan.EDITIONS["smoke"].protocols[""]


def run(method="erm", dataset="gaussians", network="mlp", seed=0, **changes) -> plan.Run:
    short = {"epochs": 4, "swa_start": 2, "snapshots": (2,), "evaluate_every": 1}
    return plan.Run(dataset, network, parse(method), seed, replace(SMOKE, **short | changes))


THREE = [run("fmfp", seed=1), run("crl", "digits", "cnn", precision="bfloat16"), run("mixup")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """Records of runs that trained one after the other."""
    folder = tmp_path_factory.mktemp("alone")
    for wanted in THREE:
        loop.train(wanted, folder)
    return folder


@pytest.fixture
def often(monkeypatch):
    """Other runs go on after each step, and each epoch has a checkpoint."""
    monkeypatch.setattr(turns, "TURN", 1)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0)


def together(wanted, folder, most=3, device="cpu", **how) -> dict:
    """Train runs side by side, and return the record of each."""
    found = side_by_side.train(wanted, device, root=folder, most=most, **how)
    return {run.name: record for run, record in found if record is not None}


def same(first: Path, second: Path, runs=tuple(THREE)) -> bool:
    return all(same_bytes(first / one.name, second / one.name) for one in runs)


def epochs_of(lines) -> list[str]:
    """The data sets of the runs whose epochs were logged, in their order."""
    return [line.split("-")[0] for line in lines if "  epoch " in line]


@pytest.mark.parametrize("kind", [None, Tape])
def test_runs_side_by_side_write_the_bytes_that_they_write_alone(
    kind, alone, often, tmp_path, monkeypatch
):
    if kind:
        monkeypatch.setattr(loop.graph, "steps", lambda training, _: Steps(training, kind))
    lines = []
    records = together(THREE, tmp_path, log=lines.append)
    assert records.keys() == {one.name for one in THREE} and same(alone, tmp_path)
    order = epochs_of(lines)  # they did take turns
    assert "digits" in order[:6] and "gaussians" in order[-6:] and len(order) == 12
    assert all(line.startswith(tuple(records)) for line in lines)
    assert {record.info["provenance"]["side_by_side"] for record in records.values()} == {3}
    assert not list(tmp_path.glob(".checkpoint*"))


def test_networks_with_dropout_draw_what_they_draw_alone(often, tmp_path, monkeypatch):
    """Their numbers come from a generator that PyTorch has once for the process."""
    build = loop.networks.build

    def with_dropout(*given, **named):
        network = build(*given, **named)
        network.pool = torch.nn.Sequential(network.pool, torch.nn.Dropout(0.5))
        return network

    monkeypatch.setattr(loop.networks, "build", with_dropout)
    two = [run(seed=seed) for seed in (0, 1)]
    for wanted in two:
        loop.train(wanted, tmp_path / "alone")
    together(two, tmp_path / "beside")
    assert same(tmp_path / "alone", tmp_path / "beside", two)
    monkeypatch.setattr(turns.torch, "set_rng_state", lambda state: None)  # no states of their own
    together(two, tmp_path / "mixed")
    assert not same(tmp_path / "alone", tmp_path / "mixed", two)


def test_a_run_beside_others_leaves_the_random_numbers_of_the_process_alone(tmp_path):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    together(THREE[::2], tmp_path)
    assert torch.equal(before, torch.get_rng_state())


def test_a_run_that_diverges_stops_no_neighbour(alone, often, tmp_path):
    lost = run(learning_rate=1e20, clip_norm=None)
    records = together([THREE[0], lost, *THREE[1:]], tmp_path, most=4)
    assert records[lost.name].diverged and same(alone, tmp_path)


def test_a_run_that_fails_stops_no_neighbour_and_its_error_comes_last(
    alone, often, tmp_path, monkeypatch
):
    broken, lines = run("sam", seed=9), []
    learning = loop.Training.learning

    def failing(training, epoch):
        if training.run == broken and epoch == 2:
            raise OSError("the disk burns\nand more")
        return learning(training, epoch)

    monkeypatch.setattr(loop.Training, "learning", failing)
    with pytest.raises(OSError, match="the disk burns"):
        together([THREE[0], broken, *THREE[1:]], tmp_path, most=2, log=lines.append)
    assert f"{broken.name}: OSError: the disk burns" in lines and same(alone, tmp_path)
    monkeypatch.setattr(loop.Training, "learning", learning)
    assert "goes on after epoch 1" in resumed(broken, tmp_path)


def resumed(wanted, folder) -> str:
    lines = []
    loop.train(wanted, folder, log=lines.append)
    return lines[0]


def test_with_one_run_at_a_time_an_error_is_raised_at_once(tmp_path):
    missing = run("erm", f"imagefolder:{tmp_path / 'nothing'}")
    with pytest.raises((OSError, ValueError)):
        together([missing, THREE[0]], tmp_path, most=1)
    assert folders.load(THREE[0], tmp_path) is None


def test_after_an_interruption_each_run_goes_on_from_its_checkpoint(alone, often, tmp_path):
    lines = []

    def stop(line):
        lines.append(line)
        if len(epochs_of(lines)) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        together(THREE, tmp_path, log=stop)
    assert len(list(tmp_path.glob(".checkpoint*"))) == 3
    assert not any(folders.held(one.name, tmp_path) for one in THREE)
    for wanted in THREE:  # alone
        assert "goes on after epoch" in resumed(wanted, tmp_path)
    assert same(alone, tmp_path)


def test_killed_runs_go_on_side_by_side(alone, tmp_path):
    code = (
        "import os, signal, sys, torch\n"
        "from pathlib import Path\n"
        "from calibkit_companion.training import loop, side_by_side\n"
        "from tests.test_side_by_side import THREE, together\n"
        "loop.CHECKPOINT_SECONDS, lines = 0, []\n"
        "def log(line):\n"
        "    lines.append(line)\n"
        "    if len(lines) == 6: os.kill(os.getpid(), signal.SIGKILL)\n"
        "together(THREE, Path(sys.argv[1]), log=log)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=Path(__file__).parents[1])
    assert done.returncode == -signal.SIGKILL and list(tmp_path.glob(".checkpoint*"))
    lines = []
    together(THREE, tmp_path, log=lines.append)
    assert any("goes on after epoch" in line for line in lines) and same(alone, tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_a_run_without_memory_starts_again_when_there_is_room(
    error, alone, often, tmp_path, monkeypatch
):
    evaluating, lines, lacking = loop.Training.evaluating, [], [THREE[1]]

    def short(training, *given):
        if training.run in lacking and training.epoch == 1:
            lacking.clear()
            raise error
        return evaluating(training, *given)

    monkeypatch.setattr(loop.Training, "evaluating", short)
    together(THREE, tmp_path, log=lines.append)
    (said,) = [line for line in lines if "memory" in line]
    assert said == f"{THREE[1].name}: out of memory; from here on 2 runs at once"
    assert f"{THREE[1].name}: goes on after epoch 1" in lines and same(alone, tmp_path)


def test_a_run_that_lacks_memory_without_neighbours_fails(tmp_path, monkeypatch):
    def short(training, *given):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(loop.Training, "evaluating", short)
    lines = []
    with pytest.raises(torch.OutOfMemoryError):
        together(THREE[:2], tmp_path, log=lines.append)
    assert [line.partition(": ")[2] for line in lines] == [
        "out of memory; from here on 1 run at once",
        *["OutOfMemoryError: CUDA out of memory"] * 2,
    ]


def test_a_graph_that_finds_no_memory_beside_others_is_not_given_up(
    alone, often, tmp_path, monkeypatch
):
    class Large(Tape):
        made = 0

        def capture(self, function, inputs):
            Large.made += 1
            if Large.made == 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            super().capture(function, inputs)

    monkeypatch.setattr(loop.graph, "steps", lambda training, _: Steps(training, Large))
    lines = []
    together(THREE, tmp_path, log=lines.append)
    assert same(alone, tmp_path) and not any("without a CUDA graph" in line for line in lines)
    assert any("out of memory; from here on 2 runs at once" in line for line in lines)


def test_the_data_are_loaded_once_and_let_go_of(often, tmp_path, monkeypatch):
    loads, load = [], data.load

    def counted(name, **asked):
        loads.append(name)
        return load(name, **asked)

    monkeypatch.setattr("calibkit_companion.data.load", counted)
    together([run(seed=seed) for seed in range(3)], tmp_path)
    assert loads == ["gaussians"]
    together([run(seed=3), run(seed=4, train_size=100)], tmp_path)
    assert loads == ["gaussians"] * 3  # other samples are other data


def test_shifted_sets_are_made_once_while_the_runs_train(tmp_path, monkeypatch):
    two, made = [run("erm", "mnist1d", "cnn", seed, shifted=300) for seed in (0, 1)], []
    for wanted in two:
        loop.train(wanted, tmp_path / "alone")
    ahead = turns.Company.ahead
    monkeypatch.setattr(
        turns.Company, "ahead", lambda *given: made.append(ahead(*given)) or made[-1]
    )
    records = together(two, tmp_path / "beside")
    assert len(made) == 4 and len(set(made)) == 1  # each run asks at its start and at its end
    for wanted in two:
        shifts = [tmp_path / f / wanted.name / "shifted.csv.gz" for f in ("alone", "beside")]
        assert shifts[0].read_bytes() == shifts[1].read_bytes()
    assert same(tmp_path / "alone", tmp_path / "beside", two) and len(records) == 2


def test_a_run_of_another_process_comes_last(alone, often, tmp_path):
    code = (
        "import filelock, sys, time; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); "
        "print(flush=True); time.sleep(4)"
    )
    lock = tmp_path / f".{THREE[0].name}.lock"
    with subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        found = list(side_by_side.train(THREE, "cpu", root=tmp_path, most=3))
    assert [(one, record is None) for one, record in found][0] == (THREE[0], True)
    assert found[-1][0] == THREE[0] and found[-1][1] is not None and same(alone, tmp_path)


def test_code_of_ones_own_has_no_neighbours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "from calibkit import losses\ndef plain(z, y):\n    return losses.cross_entropy(z, y)\n"
    )
    lines = []
    own = [run("mine.py:plain", seed=seed) for seed in (0, 1)]
    records = together([*own, *THREE[::2]], tmp_path / "runs", log=lines.append)
    assert len(records) == 4
    order = ["-plain-" in line for line in lines if "  epoch " in line]
    assert order == [False] * 8 + [True] * 8  # in the end, and one by one
    assert lines[-5].startswith(own[0].name) and lines[-4].startswith(own[1].name)


class Slow:
    """Stands for a GPU: what was asked of it is done when it was asked about three times."""

    def __init__(self):
        self.asked: list[int] = []  # by event, how often it was asked about
        self.most = 0  # most events that were not done at a time

    def __call__(self, device):
        number = len(self.asked)
        self.asked.append(0)
        self.most = max(self.most, sum(times < 3 for times in self.asked))

        def ready() -> bool:
            self.asked[number] += 1
            self.asked[:number] = [3] * number  # a stream works in order
            return self.asked[number] >= 3

        return ready


def test_a_run_has_at_most_two_turns_ahead_of_the_gpu(often, monkeypatch):
    slow = Slow()
    monkeypatch.setattr(turns, "reached", slow)
    loop.Training(THREE[2], "cpu").learn(1)
    steps = -(-SMOKE.train_size // SMOKE.batch_size)
    assert len(slow.asked) == steps + 1 and slow.most == 2  # one for each turn, and the last


def test_runs_go_on_only_when_the_gpu_is_ready(alone, often, tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "reached", lambda device: Slow()(device))
    together(THREE, tmp_path)
    assert same(alone, tmp_path)


def test_a_gpu_is_asked_by_an_event_on_the_stream_of_the_run(monkeypatch):
    recorded = []

    class Event:
        record, query = recorded.append, recorded.__len__

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream on {device}")
    assert turns.reached(torch.device("cpu")) is turns.always
    ready = turns.reached(torch.device("cuda"))
    assert recorded == ["stream on cuda"] and ready() == 1


# --- how many -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("total", "expected"), [(80, 8), (15, 6), (4, 1)])
def test_as_many_join_the_first_run_as_memory_has_room_for(
    total, expected, often, tmp_path, monkeypatch
):
    """With 2 GB for a run, 0.8 × 78 / 2 = 31 would fit beside the first, 0.8 × 13 / 2 = 5, none."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (total - 2, total))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda _: 2)
    counts, count = [], turns.Company.count
    monkeypatch.setattr(
        turns.Company, "count", lambda self, n: counts.append((n, self.epochs)) or count(self, n)
    )
    group = side_by_side._Together(
        torch.device("cpu"), side_by_side.MOST, lambda line: None, False, tmp_path, measure=True
    )
    runs = [run(seed=seed, epochs=2, swa_start=1, snapshots=()) for seed in range(9)]
    assert len(list(group.train(runs))) == 9
    assert max(n for n, _ in counts) == expected
    assert counts[0] == (1, 0) and counts[1][1] >= 1  # the first had its epoch alone


def test_runs_that_decode_images_have_no_neighbours(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (80, 80))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda _: 2)
    lines: list[str] = []
    group = side_by_side._Together(
        torch.device("cpu"), 8, lines.append, False, tmp_path, measure=True
    )
    size = {"train_size": None, "validation": 4, "batch_size": 4}
    two = [run("erm", photos, "cnn", seed, **size) for seed in (0, 1)]
    assert len(list(group.train(two))) == 2 and group.limit == 8  # memory would do for eight
    assert [line.split("  epoch ")[0] for line in lines] == [r.name for r in two for _ in range(4)]


def test_one_at_a_time_on_a_cpu_and_when_something_is_compiled(tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("side by side")

    monkeypatch.setattr(side_by_side, "_Together", never)
    found = list(side_by_side.train(THREE[::2], "cpu", root=tmp_path))
    assert [one for one, _ in found] == THREE[::2]
    assert "side_by_side" not in found[0][1].info["provenance"]
    side_by_side.train(THREE, "cuda", mode="default")
    side_by_side.train(THREE[:1], "cuda")
    with pytest.raises(AssertionError, match="side by side"):
        side_by_side.train(THREE, "cuda")


def test_seconds_of_runs_side_by_side_add_up(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(turns.time, "perf_counter", lambda: now[0])
    company = turns.Company(torch.device("cpu"))
    now[0] = 3.0
    company.count(2)
    now[0] = 7.0
    assert company.clock() == 3 + 4 / 2
    company.count(1)
    now[0] = 8.0
    assert company.clock() == 6.0 and company.most == 2


def test_a_turn_on_a_gpu_has_the_stream_and_the_generator_of_its_run(monkeypatch):
    """By doubles: what is exchanged is put back, also after an error."""
    from contextlib import contextmanager

    seen = {"stream": "usual", "state": "usual"}

    class Generator:
        def graphsafe_get_state(self):
            return seen["state"]

        def graphsafe_set_state(self, state):
            seen["state"] = state

    @contextmanager
    def current(stream):
        seen["stream"], usual = stream, seen["stream"]
        yield
        seen["stream"] = usual

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(torch, "Generator", lambda device: "its own")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: turns.nullcontext())
    monkeypatch.setattr(torch.cuda, "stream", current)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "default_generators", (Generator(),))
    place = turns.Place(torch.device("cuda"))
    with place.turn():
        assert seen == {"stream": "stream of cuda", "state": "its own"}
    assert seen == {"stream": "usual", "state": "usual"}
    with pytest.raises(ValueError), place.turn():
        raise ValueError
    assert seen["state"] == "usual"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    ("dataset", "network"), [("digits", "cnn"), ("20newsgroups", "textcnn")]
)  # the second has dropout
def test_a_gpu_repeats_side_by_side_what_it_does_alone(dataset, network, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0)
    size = {"train_size": 1000, "batch_size": 128, "precision": "bfloat16", "validation": 100}
    runs = [run("fmfp", dataset, network, seed, **size) for seed in range(3)]
    for wanted, folder in product(runs, ("alone", "again")):
        loop.train(wanted, tmp_path / folder, "cuda")
    if not same(tmp_path / "alone", tmp_path / "again", runs):
        pytest.skip("these runs do not repeat alone")
    together(runs, tmp_path / "beside", device="cuda")
    assert same(tmp_path / "alone", tmp_path / "beside", runs)

    def stop(line):
        if "  epoch 3/" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        together(runs, tmp_path / "stopped", device="cuda", log=stop)
    together(runs, tmp_path / "stopped", device="cuda")
    assert same(tmp_path / "alone", tmp_path / "stopped", runs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_trains_as_many_as_it_has_room_for_and_shares_their_seconds(tmp_path):
    size = {"train_size": 1000, "batch_size": 128, "precision": "bfloat16"}
    runs = [run("erm", "digits", "cnn", seed, **size) for seed in range(9)]
    start = time.perf_counter()
    records = [record for _, record in side_by_side.train(runs, "cuda", root=tmp_path)]
    wall = time.perf_counter() - start
    assert max(r.info["provenance"].get("side_by_side", 1) for r in records) == side_by_side.MOST
    assert sum(r.info["provenance"]["seconds"] for r in records) <= wall
