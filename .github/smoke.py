"""What `pip install calibkit` brings works where nothing else is installed.

python .github/smoke.py [report] [train] [torch]     # with these extras, or torch, installed
"""

import os
import subprocess
import sys
import tempfile
from importlib import metadata, resources
from pathlib import Path

import numpy as np

import calibkit
from calibkit import confidence, metrics, posthoc, stats

HEAVY = {"torch", "matplotlib", "pandas", "sklearn"}
EXTRAS = set(sys.argv[1:])


def near(value, expected):
    assert np.allclose(value, expected, atol=1e-9), (value, expected)


def refused(*command: str) -> str:
    """What a command says which has to stop in one line, without a traceback."""
    done = subprocess.run(command, capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode != 0 and line.startswith("calibkit: "), done.stderr
    return line


def library():
    assert "site-packages" in calibkit.__file__, f"not the installed one: {calibkit.__file__}"
    assert metadata.version("calibkit") == calibkit.__version__
    assert not HEAVY & set(sys.modules), HEAVY & set(sys.modules)

    probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    labels = np.array([0, 1, 1, 1])  # the second is wrong
    near(metrics.ece(probs, labels, bins=2), abs(0.75 - (0.9 + 0.6 + 0.8 + 0.7) / 4))
    near(metrics.brier(probs, labels), (2 * 0.1**2 + 2 * 0.6**2 + 2 * 0.2**2 + 2 * 0.3**2) / 4)
    near(metrics.auroc(probs.max(1), probs.argmax(1) == labels), 1)

    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=3000)
    logits = 4 * (2 * np.eye(5)[labels] + rng.normal(size=(3000, 5)))
    scaled = posthoc.TemperatureScaling().fit(logits, labels)
    assert 1 < scaled.temperature_ < 10
    assert metrics.nll(scaled.predict_proba(logits), labels) < metrics.nll(
        np.exp(logits) / np.exp(logits).sum(1, keepdims=True), labels
    )
    assert {"accuracy", "ece", "auroc"} <= set(metrics.summary(logits, labels))
    assert set(stats.bootstrap(logits, labels, ["accuracy"], n=50)) == {"accuracy"}
    near(confidence.maximum_logit(logits), logits.max(1))
    return logits, labels


def package_data():
    files = {
        "calibkit": ("py.typed", "report/page.html.jinja"),
        "calibkit_companion": (
            *("py.typed", "experiments/papers/fmfp.json"),
            *("experiments/ledger/numbers.csv", "experiments/ledger/exhibits.csv"),
        ),
    }
    for package, names in files.items():
        for name in names:
            assert resources.files(package).joinpath(name).is_file(), name
    everything = [str(file) for file in metadata.files("calibkit")]
    assert not [file for file in everything if file.endswith((".ipynb", ".npz", ".png"))]
    owned = {file.split("/")[0] for file in everything if ".dist-info" not in file}
    assert owned <= {"calibkit", "calibkit_companion", ".."}, owned  # ../../../bin/calibkit


def command_line(logits, labels):
    with tempfile.TemporaryDirectory() as folder:
        predictions, out = Path(folder, "preds.npz"), Path(folder, "report")
        np.savez(predictions, logits=logits, labels=labels)
        report = ("calibkit", "report", str(predictions), "--out", str(out))
        if "report" in EXTRAS:
            subprocess.run(report, check=True, stdout=subprocess.DEVNULL)
            page = (out / "report.html").read_text(encoding="utf-8")
            assert "</html>" in page and len(page) > 50_000
        else:
            assert "calibkit[report]" in refused(*report)
    if not EXTRAS & {"train", "torch"}:
        assert "calibkit[train]" in refused("calibkit", "train", "--edition", "smoke")
    version = subprocess.check_output(["calibkit", "--version"], text=True)
    assert version.strip() == f"calibkit {calibkit.__version__}"
    subprocess.run(["calibkit", "runs", "--help"], check=True, stdout=subprocess.DEVNULL)
    old = [sys.executable, "-c", "from calibkit.companion.plan import runs"]
    assert (
        "DeprecationWarning" in subprocess.run(old, check=True, capture_output=True).stderr.decode()
    )


def losses():
    import torch

    from calibkit import losses

    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], requires_grad=True)
    targets = torch.tensor([0, 0])
    expected = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(losses.cross_entropy(logits, targets), expected)
    torch.testing.assert_close(losses.focal(logits, targets, gamma=0), expected)
    losses.bsce_gra(logits, targets).mean().backward()
    assert torch.isfinite(logits.grad).all()


def training():
    """A run of a second leaves its record."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CALIBKIT_CACHE": folder}
        train = ["calibkit", "train", "--edition", "smoke", "--method", "erm", "--seeds", "1"]
        subprocess.run([*train, "--quiet"], check=True, env=environment)
        assert len(list(Path(folder, "runs").glob("*/run.json"))) == 1


if __name__ == "__main__":
    drawn = library()
    package_data()
    command_line(*drawn)
    if EXTRAS & {"train", "torch"}:
        losses()
    if "train" in EXTRAS:
        training()
    extras = " and ".join(sorted(EXTRAS)) or "no extra"
    print(f"calibkit {calibkit.__version__}: fine with {extras}")
