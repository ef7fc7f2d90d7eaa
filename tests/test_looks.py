"""Seeds and looks: the file says what the tables hold, and nothing is added beyond its plan."""

from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from calibkit_companion.experiments import looks, plan

RELEASED = Path(__file__).parents[1] / "data_cache/released"


def planned(name):
    """The seeds of each method that the plan has in a setting, whichever page needs them."""
    place = plan.setting("released", name)
    data = place.dataset, place.network
    runs = [r for r in plan.runs("book", "released") if (r.dataset, r.network) == data]
    own = [r for r in runs if r.variant == "code" and r.protocol == place.protocol_of(r.recipe)]
    return Counter(run.method for run in own)


@pytest.mark.parametrize("name", looks.settings())
def test_the_last_look_is_at_the_seeds_that_the_tables_hold(name):
    parquet = pytest.importorskip("pyarrow.parquet")
    if not (path := RELEASED / name / "runs.parquet").exists():
        pytest.skip("needs the released tables")
    runs = parquet.read_table(path, columns=["method", "variant"]).to_pylist()
    held = Counter(run["method"] for run in runs if run["variant"] == "code")
    most = planned(name)  # of coefficients only tried the plan has fewer
    last = {method: min(looks.seeds(name, method)[-2], most[method]) for method in held}
    assert last == held, f"add the look at {name}"


@pytest.mark.parametrize("name", looks.settings())
def test_a_setting_is_planned_with_the_seeds_of_the_file(name):
    place, swept = plan.setting("released", name), plan.EDITIONS["released"].sweep_seeds
    for method, count in planned(name).items():
        file = looks.seeds(name, method)[-1]
        assert count == file or count == swept < file == place.seeds, method
    for method, count in place.more:
        assert len(place.runs([method])) == count == looks.seeds(name, method.name)[-1]


def test_looks_follow_one_another_and_add_seeds():
    for name, its in looks.settings().items():
        dates = [look["date"] for look in its["looks"]]
        assert dates == sorted(dates) and all(isinstance(day, date) for day in dates)
        for method in {m for look in its["looks"] for m in look} - {"date", "commit", "usual"}:
            assert (each := looks.seeds(name, method)) == sorted(each), (name, method)


def test_what_is_planned_of_the_queue():
    last = lambda name, methods: {looks.seeds(name, m)[-1] for m in methods}  # noqa: E731
    assert last("cifar10-long", ("erm", "label_smoothing")) == {7}
    assert last("cifar10-augmented", ("erm", "sam", "swa", "fmfp")) == {6}
    assert last("cifar10-bsce", ("erm", "focal", "dual_focal", "bsce", "bsce_gra")) == {6}


def test_every_look_at_a_setting_counts_for_all_that_is_compared_there(monkeypatch):
    made = {
        "planned": {"usual": 3, "erm": 6, "sam": 6},
        "looks": [
            {"erm": 1, "sam": 1},  # one seed of each: nothing can be judged
            {"erm": 3, "label_smoothing": 2},
            {"sam": 3, "swa": 3},
            {"erm": 4},
            {"sam": 4},
        ],
    }
    reached = {"planned": {"usual": 4}, "looks": [{"usual": 2}, {"crl": 4, "usual": 4}]}
    other = {"planned": {"usual": 1, "swa": 3}, "looks": [{"erm": 1}, {"swa": 3}]}
    file = {"made": made, "reached": reached, "other": other}
    monkeypatch.setattr(looks, "settings", lambda: file)
    assert looks.seeds("made", "erm") == [1, 3, 3, 4, 4, 6]
    assert looks.seeds("made", "label_smoothing(epsilon=0.05)")[1] == 2  # the usual, by its value
    assert looks.taken("made") == 5  # four with two seeds of something, and the planned number
    assert looks.taken("reached") == 2 and looks.taken("other") == 1
    assert looks.taken("nowhere") == 1
    assert looks.complete("reached") and looks.complete("nowhere")
    assert not looks.complete("made") and looks.complete("other")
    assert looks.planned("made") == {"seeds": 3, "more": (("erm", 6), ("sam", 6))}
    assert looks.planned("nowhere") == {}


def test_looks_of_the_released_settings():
    found = {name: looks.taken(name) for name in looks.settings()}
    assert {name: n for name, n in found.items() if n > 1} == {
        "cifar10-plain": 5,
        "cifar10-augmented": 7,  # six, and the planned number
        "cifar10-long": 2,  # three looks at one seed each are none
        "cifar10-bsce": 5,
        "fashion-bsce": 2,
        "texts-long": 4,
    }
