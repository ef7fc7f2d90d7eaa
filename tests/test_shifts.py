"""Corruptions are reproducible, grow with severity, and do what their names say."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import gaussian_filter

from calibkit_companion import data
from calibkit_companion.data import catalogue, readers, shifts
from calibkit_companion.data.readers import generated


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CALIBKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path))


def scenes(n=24, channels=3, side=32):
    """Smooth images with some edges, like photographs."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, channels, side, side)) + rng.standard_normal((n, 1, side, side))
    x = gaussian_filter(x, (0, 0, 2, 2)) + 0.7 * (gaussian_filter(x, (0, 0, 4, 4)) > 0)
    x = (x - x.min()) / (x.max() - x.min())
    return torch.from_numpy((x * 255).astype(np.uint8))


SCENES = scenes()


def distance(a, b):
    return float((a.float() - b.float()).abs().mean())


@pytest.mark.parametrize("name", shifts.CORRUPTIONS)
def test_severities_grow_and_seeds_decide(name):
    made = [shifts.corrupt(SCENES, name, severity, seed=3) for severity in shifts.SEVERITIES]
    steps = [distance(m, SCENES) for m in made]
    assert steps == sorted(steps) and steps[0] > 0.3 and len(set(steps)) == 5
    for m in made:
        assert m.dtype == torch.uint8 and m.shape == SCENES.shape and m.is_contiguous()
    assert torch.equal(made[2], shifts.corrupt(SCENES, name, 3, seed=3))
    random = {"gaussian_noise", "shot_noise", "impulse_noise", "motion_blur", "elastic_transform"}
    other = shifts.corrupt(SCENES, name, 3, seed=4)
    assert torch.equal(made[2], other) == (name not in random)


def test_global_random_state_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    for name in shifts.CORRUPTIONS:
        shifts.corrupt(SCENES[:2], name, 1)
    assert torch.equal(torch.get_rng_state(), before)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([n for n in shifts.CORRUPTIONS if n != "saturate"]),
    st.sampled_from(shifts.SEVERITIES),
    st.sampled_from([(1, 28, 28), (3, 33, 40), (1, 8, 8), (3, 64, 64)]),
    st.integers(0, 3),
)
def test_any_size_and_number(name, severity, shape, n):
    x = torch.randint(0, 256, (n, *shape), dtype=torch.uint8)
    before = x.clone()
    assert shifts.corrupt(x, name, severity).shape == x.shape
    assert torch.equal(x, before)


def test_blocks_of_a_thousand_draw_different_numbers():
    grey = torch.full((2000, 1, 8, 8), 128, dtype=torch.uint8)
    made = shifts.corrupt(grey, "gaussian_noise", 3)
    assert not torch.equal(made[:1000], made[1000:])


def test_noises_have_their_strengths():
    grey = torch.full((50, 3, 32, 32), 128, dtype=torch.uint8)
    noisy = shifts.corrupt(grey, "gaussian_noise", 5).float() / 255
    assert abs(noisy.std() - 0.10) < 0.002 and abs(noisy.mean() - 128 / 255) < 0.002
    shot = shifts.corrupt(grey, "shot_noise", 5).float() / 255
    assert abs(shot.std() - (128 / 255 / 50) ** 0.5) < 0.003  # Poisson: variance = mean / photons
    impulse = shifts.corrupt(grey, "impulse_noise", 5)
    assert abs((impulse == 0).float().mean() - 0.035) < 0.002
    assert abs((impulse == 255).float().mean() - 0.035) < 0.002


def test_blurs_spread_a_point_and_keep_its_light():
    x = torch.zeros(6, 1, 33, 33, dtype=torch.uint8)
    x[:, 0, 16, 16] = 255
    for name, reach in (("gaussian_blur", 3), ("defocus_blur", 2), ("motion_blur", 3)):
        y = shifts.corrupt(x, name, 5)
        assert (y.float().sum((1, 2, 3)) - 255).abs().max() < 15, name  # rounding of ~30 pixels
        y[:, :, 16 - reach : 17 + reach, 16 - reach : 17 + reach] = 0
        assert not y.any(), name
    disc = shifts.corrupt(x, "defocus_blur", 5)[0, 0].int()
    assert torch.equal(disc, disc.T) and torch.equal(disc, disc.flip(0))
    line = shifts.corrupt(x, "motion_blur", 5)[:, 0].float()
    rows, columns = torch.meshgrid(torch.arange(33.0) - 16, torch.arange(33.0) - 16, indexing="ij")
    for image in line:  # much longer than wide
        weight = image / image.sum()
        xy = (weight * rows * columns).sum()
        moments = torch.tensor([[(weight * rows**2).sum(), xy], [xy, (weight * columns**2).sum()]])
        thin, long = torch.linalg.eigvalsh(moments)
        assert long > 5 * thin


def test_gaussian_blur_is_scipys():
    expected = gaussian_filter(SCENES.double().numpy(), (0, 0, 1, 1), mode="mirror", truncate=3)
    found = shifts.corrupt(SCENES, "gaussian_blur", 5)
    np.testing.assert_allclose(found, expected, atol=0.51)


def test_zoom_leaves_the_centre_in_place():
    x = torch.zeros(1, 1, 33, 33, dtype=torch.uint8)
    x[..., 16, 16] = 255
    y = shifts.corrupt(x, "zoom_blur", 5)
    assert y.argmax() == x.argmax()
    ring = torch.zeros(1, 1, 33, 33, dtype=torch.uint8)
    ring[..., 16, 28] = 255
    moved = shifts.corrupt(ring, "zoom_blur", 5)[0, 0].float()
    assert moved[16, 29:].sum() > 0 and moved[16, :28].sum() == 0  # outwards only


def test_colours():
    bright = shifts.corrupt(SCENES, "brightness", 3)
    np.testing.assert_allclose(bright, (SCENES.double() * 1.4).clamp(max=255), atol=0.51)
    flat = shifts.corrupt(SCENES, "contrast", 5).float()
    spread = flat.std((1, 2, 3)) / SCENES.float().std((1, 2, 3))
    assert spread.max() < 0.2
    grey = SCENES[:, :1].expand(-1, 3, -1, -1)
    assert distance(shifts.corrupt(grey, "saturate", 5), grey) < 1  # no colour to strengthen


def test_pixelate_ends_in_blocks():
    y = shifts.corrupt(SCENES, "pixelate", 5)
    blocks = y.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)
    assert (blocks == blocks[..., :1]).all()
    means = SCENES.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).float().mean(4)
    np.testing.assert_allclose(blocks[..., 0], means, atol=0.51)


def test_jpeg_is_pillows():
    found = shifts.corrupt(SCENES[:1], "jpeg_compression", 5)[0].permute(1, 2, 0)
    file = io.BytesIO()
    Image.fromarray(SCENES[0].permute(1, 2, 0).numpy()).save(file, "JPEG", quality=40)
    np.testing.assert_array_equal(found, np.asarray(Image.open(file)))


def test_elastic_moves_by_so_many_pixels():
    ramp = torch.arange(0, 256, 8, dtype=torch.uint8).expand(40, 1, 32, 32)
    moved = shifts.corrupt(ramp.contiguous(), "elastic_transform", 3).float() / 8
    shift = (moved - torch.arange(32.0))[..., 8:-8, 8:-8]
    assert abs(shift.square().mean().sqrt() - 0.8) < 0.12


def test_wrong_arguments():
    with pytest.raises(ValueError, match="name: got 'fog', expected one of gaussian_noise, "):
        shifts.corrupt(SCENES, "fog", 1)
    for severity in (0, 6, 2.5):
        with pytest.raises(ValueError, match="severity: got .*, expected 1 to 5"):
            shifts.corrupt(SCENES, "contrast", severity)
    for x in (SCENES.float(), SCENES[0], SCENES[:, :2]):
        with pytest.raises(ValueError, match="inputs: got .*expected torch.uint8"):
            shifts.corrupt(x, "contrast", 1)
    with pytest.raises(ValueError, match=r"c in \(3,\) for saturate"):
        shifts.corrupt(SCENES[:, :1], "saturate", 1)


# --- MNIST-1D ---


@pytest.fixture
def fewer(monkeypatch):
    """A hundredth of the samples; counts generations."""
    calls, real = [], readers.mnist1d_signals

    def quick(n, seed, **changed):
        calls.append((n, seed, changed))
        return real(n // 100, seed, **changed)

    for module in (readers, generated):
        monkeypatch.setattr(module, "mnist1d_signals", quick)
    return calls


def test_mnist1d_shifts_are_the_same_digits_farther_away(fewer, tmp_path):
    clean = data.load("mnist1d", tmp_path).test
    moved = [shifts.mnist1d_shifted(s) for s in shifts.SEVERITIES]
    assert fewer[-1][0] == readers.MNIST1D_TEST
    for split in moved:
        assert split.inputs.shape == clean.inputs.shape and split.inputs.dtype == torch.float32
        assert torch.equal(split.labels, clean.labels)
    steps = [distance(m.inputs, clean.inputs) for m in moved]
    assert steps == sorted(steps)
    # Each change is linear in the scales, so severity 5 is five times as far as severity 1.
    np.testing.assert_allclose(steps[4] / steps[0], 5, rtol=1e-3)


def test_mnist1d_shifts_are_kept(fewer, tmp_path):
    first = shifts.mnist1d_shifted(2)
    again = shifts.mnist1d_shifted(2)
    assert len(fewer) == 1 and torch.equal(first.inputs, again.inputs)
    file = tmp_path / "decoded" / "mnist1d-shifted-2" / "test.npy"
    file.write_bytes(file.read_bytes()[:-4])
    assert torch.equal(first.inputs, shifts.mnist1d_shifted(2).inputs)
    assert len(fewer) == 2
    with pytest.raises(ValueError, match="severity: got 0"):
        shifts.mnist1d_shifted(0)


def test_mnist1d_scales_are_the_packages_own():
    from mnist1d.data import get_dataset_args

    plain = get_dataset_args(as_dict=True)
    same, _ = readers.mnist1d_signals(20, 7, **{k: plain[k] for k in shifts.MNIST1D_SCALES})
    assert {k: plain[k] for k in shifts.MNIST1D_SCALES} == shifts.MNIST1D_SCALES
    np.testing.assert_array_equal(same, readers.mnist1d_signals(20, 7)[0])


# --- CIFAR-10-C ---


def test_cifar10c(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    stacks = {}
    for name in (*readers.CIFAR10C_CORRUPTIONS, "spatter"):
        stacks[name] = rng.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
        np.save(folder / f"{name}.npy", stacks[name])
    labels = np.tile(np.arange(4, dtype=np.uint8), 5)
    np.save(folder / "labels.npy", labels)
    row = replace(catalogue.SOURCES["cifar10c"], counts=(0, 300))
    monkeypatch.setitem(catalogue.SOURCES, "cifar10c", row)

    for name in ("fog", "spatter"):
        for severity in shifts.SEVERITIES:
            found = shifts.cifar10c(name, severity)
            rows = slice(4 * severity - 4, 4 * severity)
            np.testing.assert_array_equal(found.inputs, stacks[name][rows].transpose(0, 3, 1, 2))
            assert found.labels.tolist() == [0, 1, 2, 3] and found.inputs.is_contiguous()
    whole = data.load("cifar10c", tmp_path).test.inputs.view(15, 5, 4, 3, 32, 32)
    fog = readers.CIFAR10C_CORRUPTIONS.index("fog")
    assert torch.equal(whole[fog, 2], shifts.cifar10c("fog", 3).inputs)

    with pytest.raises(FileNotFoundError, match=r"saturate\.npy: missing; get it again"):
        shifts.cifar10c("saturate", 1)
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(FileNotFoundError, match="cifar10c not found"):
        shifts.cifar10c("fog", 1)


def write_cifar10c(root, n=4):
    folder = root / "CIFAR-10-C"
    folder.mkdir(parents=True)
    for shade, name in enumerate(readers.CIFAR10C_CORRUPTIONS):
        rows = np.arange(5 * n, dtype=np.uint8)[:, None, None, None] + np.uint8(10 * shade)
        np.save(folder / f"{name}.npy", np.broadcast_to(rows, (5 * n, 32, 32, 3)))
    np.save(folder / "labels.npy", np.tile(np.arange(n, dtype=np.uint8), 5))


@pytest.fixture
def few_images(tmp_path, monkeypatch):
    """A data folder with twenty images of CIFAR-10."""
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path))
    row = replace(catalogue.SOURCES["cifar10"], counts=None)
    monkeypatch.setitem(catalogue.SOURCES, "cifar10", row)
    for part in ("train", "test"):
        for label, name in enumerate(readers.CIFAR10_CLASSES):
            file = tmp_path / "cifar10" / part / name / "0.png"
            file.parent.mkdir(parents=True)
            Image.fromarray(np.full((32, 32, 3), 20 * label, np.uint8)).save(file)
    shifts.made.cache_clear()
    yield tmp_path
    shifts.made.cache_clear()


def test_published_test_sets_are_taken_where_they_are(few_images):
    own = dict(shifts.shifted_sets("cifar10", 3))
    assert set(own) == {(k, s) for k in shifts.CORRUPTIONS for s in shifts.SEVERITIES}
    write_cifar10c(few_images)
    folder = few_images / "cifar10_2"
    folder.mkdir()
    x = np.full((2000, 32, 32, 3), 7, np.uint8)
    np.savez(folder / "cifar102_test.npz", images=x, labels=np.arange(2000) % 10)
    found = dict(shifts.shifted_sets("cifar10", 3))
    corrupted = {(f"cifar10c:{k}", s) for k in readers.CIFAR10C_CORRUPTIONS for s in range(1, 6)}
    assert set(found) == corrupted | {("cifar10_2", 0)}
    assert {len(split) for split in found.values()} == {3}
    fog = found["cifar10c:fog", 2]
    shade = 10 * readers.CIFAR10C_CORRUPTIONS.index("fog")
    assert fog.inputs[:, 0, 0, 0].tolist() == [shade + 4, shade + 5, shade + 6]
    assert fog.labels.tolist() == [0, 1, 2]
    assert found["cifar10_2", 0].inputs.unique().tolist() == [7]


def test_a_damaged_published_set_is_refused_by_name(few_images):
    write_cifar10c(few_images)
    (few_images / "CIFAR-10-C" / "fog.npy").write_bytes(b"short")
    with pytest.raises(ValueError, match="fog.npy: truncated, altered or unreadable"):
        dict(shifts.shifted_sets("cifar10", 3))


def test_images_too_many_to_hold_are_not_corrupted_here(few_images, monkeypatch):
    monkeypatch.setenv("CALIBKIT_IN_MEMORY", "0.0001")
    assert dict(shifts.shifted_sets("cifar10", 3)) == {}
