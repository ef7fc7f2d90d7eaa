"""The file of a map is sealed: no edit and no damage loads, and the way to accept an edit works."""

import json
import re
import warnings

import numpy as np
import pytest

from calibkit import cli, map_files, posthoc
from calibkit.report import deploy, predictions

pytestmark = pytest.mark.usefixtures("few_resamples")


def sampled(n=300, k=2, seed=0):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, k))
    return logits, (logits / 2 + rng.gumbel(size=(n, k))).argmax(axis=1)


@pytest.fixture
def fitted(tmp_path):
    """A map with thresholds, as the command saves it, and its path."""
    logits, labels = sampled()
    data = predictions.from_arrays({"logits": logits, "labels": labels, "class_names": ["a", "b"]})
    model, about = deploy.recalibrate(data, "isotonic", "b", rules=[("recall", 0.5)])
    model.save(tmp_path / "map.json", **about)
    return tmp_path / "map.json"


def refused(file, content, match="."):
    file.write_bytes(content)
    with pytest.raises(ValueError, match=match) as caught:
        posthoc.load(file)
    said = str(caught.value)
    assert said.startswith(f"{file}: ") and "\n" not in said
    return said


def test_no_flipped_byte_loads(fitted):
    """A bit of every byte in turn, which is more than the 480 flips that were once tried."""
    whole, rng = fitted.read_bytes(), np.random.default_rng(0)
    places = range(len(whole)) if len(whole) < 5000 else rng.permutation(len(whole))[:5000]
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        refused(fitted, bytes(flipped))
    assert len(places) >= 480


def test_no_changed_token_loads(fitted):
    """Each token deleted, doubled, or changed to another of its kind."""
    whole = fitted.read_text()
    tokens = [*re.finditer(r'"[^"]*"|-?[\d.]+(?:e-?\d+)?|true|false|null|[][{}:,]', whole)]
    others = {"true": "false", "false": "true", "null": "0", "{": "[", "[": "{"}
    tried = 0
    for found in tokens[:: max(1, len(tokens) // 200)] + tokens[-6:]:
        token = found[0]
        for other in {"", token * 2, others.get(token, "1"), f"{token} "} - {token}:
            refused(fitted, (whole[: found.start()] + other + whole[found.end() :]).encode())
            tried += 1
    assert tried >= 480


def test_an_edit_is_named_and_can_be_accepted(fitted):
    before = posthoc.load(fitted)
    text = fitted.read_text()
    edited = text.replace('"rule": "recall"', '"rule": "by hand"')
    assert edited != text
    said = refused(fitted, edited.encode(), "was edited since it was saved")
    assert said.endswith(f"posthoc.load({str(fitted)!r}, edited=True) accepts the edit")
    kept = posthoc.load(fitted, edited=True)
    assert kept.about_["thresholds"][0]["rule"] == "by hand"
    kept.save(fitted, **kept.about_)
    again = posthoc.load(fitted)
    assert again.about_ == kept.about_ and kept.about_ != before.about_
    without = re.sub(r',\n "seal": ".*"', "", text)
    refused(fitted, without.encode(), "the seal, is missing")


def test_every_key_of_the_command_is_known(fitted):
    """A key that is not in `map_files.KNOWN` would go under "about"."""
    kept = json.loads(fitted.read_text())
    assert kept["calibkit_map"] == 2 and kept.keys() - map_files.KNOWN == {"seal"}
    assert map_files.OWN not in kept
    assert [*kept][:5] == list(map_files.MAP) and [*kept][-1] == "seal"


MATRIX = {"map": "matrix", "fitted": {"matrix": [[1, 0], [0, 1]], "bias": [0, 0]}}


def sealed(changes, without=()):
    model = posthoc.VectorScaling().fit(*sampled())
    kept = {"calibkit_map": 2, "map": "vector", "options": {}, "classes": 2}
    kept["fitted"] = {"scale": model.scale_.tolist(), "bias": model.bias_.tolist()}
    kept = {k: v for k, v in (kept | changes).items() if k not in without}
    return map_files.content_of(kept, {})


@pytest.mark.parametrize(
    ("changes", "without", "message"),
    [
        ({"colour": "red"}, (), "unknown keys colour"),
        ({}, ("classes",), "got no key 'classes'"),
        ({}, ("fitted",), "got no key 'fitted'"),
        ({"fitted": {"scale": [1, 1]}}, (), "no 'bias'"),
        ({"fitted": {"scale": [1, 1], "bias": [0, 0], "x": 1}}, (), "x: expected the keys"),
        ({"map": "fixed", "fitted": {"temperature": 2}, "options": 2}, (), "mapping"),
        (MATRIX | {"options": {}}, (), "l2: expected the keys that calibkit saves"),
        (MATRIX | {"options": {"l1": 1}}, (), "unexpected keyword"),
        ({"about": {"classes": 3}}, (), "about: expected an object without keys"),
        ({"about": [1]}, (), "about: expected an object"),
        ({"calibkit_map": True}, (), "calibkit_map: got 'True', expected 1 or 2"),
        ({"calibkit_map": 2.0}, (), "calibkit_map: got '2.0'"),
        ({"calibkit_map": 0}, (), "calibkit_map: got '0'"),
        ({"calibkit_map": 3}, (), "of a later version"),
        ({"classes": 10**400}, (), "classes: got 1000"),
        ({"classes": True}, (), "classes: got True"),
        ({"fitted": {"scale": [10**400, 1], "bias": [0, 0]}}, (), "too large"),
    ],
)
def test_a_sealed_map_of_other_keys_or_values_is_refused(changes, without, message, tmp_path):
    (tmp_path / "good.json").write_bytes(sealed({}))
    posthoc.load(tmp_path / "good.json")
    refused(tmp_path / "map.json", sealed(changes, without), message)


def test_what_is_no_json_of_ours_is_refused(tmp_path):
    good = sealed({}).decode()
    for text, message in (
        (good.replace('"classes": 2', '"classes": 2, "classes": 2'), "a key twice"),
        (good.replace('"classes": 2', '"classes": NaN'), "got NaN"),
        (good.replace("2", "1" * 5000, 1), "digits"),
    ):
        refused(tmp_path / "map.json", text.encode(), message)


def test_words_of_ones_own_come_back(tmp_path):
    model = posthoc.FixedTemperature(2.0)
    model.save(tmp_path / "map.json", trained="2026-11", scores="logits")
    assert json.loads((tmp_path / "map.json").read_text())["about"] == {"trained": "2026-11"}
    assert posthoc.load(tmp_path / "map.json").about_ == {"trained": "2026-11", "scores": "logits"}
    for name in ("seal", "about", "map"):
        with pytest.raises(ValueError, match=f"about: got {name}"):
            model.save(tmp_path / "map.json", **{name: 1})


def test_a_map_of_version_0_1_loads_with_one_note(tmp_path):
    """And one that names this version, but has keys that came later, does not."""
    file = tmp_path / "map.json"
    old = {"calibkit_map": 1, "map": "temperature", "options": {"objective": "nll"}, "classes": 2}
    old |= {"fitted": {"temperature": 2.0}, "scores": "logits", "mine": 3}
    file.write_text(json.dumps(old))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kept = posthoc.load(file)
    (note,) = caught
    assert "version 0.1, without a seal" in str(note.message) and note.filename == __file__
    assert kept.about_ == {"scores": "logits", "mine": 3}
    for key in (*map_files.SINCE, "seal", "about"):
        refused(file, json.dumps(old | {key: None}).encode(), f"has {key}, which came after")
    kept.save(file, **kept.about_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert posthoc.load(file).about_ == kept.about_


@pytest.mark.parametrize("temperature", [1e-3, 0.5, 1.0])
def test_a_map_with_a_temperature_of_at_most_1_loads(temperature, tmp_path):
    model = posthoc.FixedTemperature(temperature)
    model.save(tmp_path / "map.json")
    kept = posthoc.load(tmp_path / "map.json")
    assert kept.temperature == temperature
    np.testing.assert_array_equal(
        kept.predict_proba([[1.0, 0.5]]), model.predict_proba([[1.0, 0.5]])
    )


def test_the_map_names_the_sum_of_its_input(tmp_path, capsys, monkeypatch):
    import hashlib

    monkeypatch.chdir(tmp_path)
    logits, labels = sampled()
    np.savez("preds.npz", logits=logits, labels=labels)
    command = ["recalibrate", "preds.npz", "--map", "temperature", "--save", "map.json", "--force"]
    assert cli.main([*command, "--quiet"]) == 0
    sha = hashlib.sha256((tmp_path / "preds.npz").read_bytes()).hexdigest()
    assert posthoc.load("map.json").about_["inputs"] == [{"file": "preds.npz", "sha256": sha}]
