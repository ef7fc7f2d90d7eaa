"""Old name of `calibkit_companion.training`, ``experiments`` and ``records``."""

from calibkit._moved import forward

_NEW = "calibkit_companion"
forward(
    __name__,
    {
        "": f"{_NEW}.training",
        "loop": f"{_NEW}.training.loop",
        "machine": f"{_NEW}.training.machine",
        "networks": f"{_NEW}.training.networks",
        "objectives": f"{_NEW}.training.objectives",
        "plugins": f"{_NEW}.experiments.plugins",
        "protocols": f"{_NEW}.experiments.protocol {_NEW}.experiments.papers.protocols",
        "runs": f"{_NEW}.experiments.run {_NEW}.experiments.method",
        "store": f"{_NEW}.records.folders {_NEW}.records.record",
        "tables": f"{_NEW}.records.tables {_NEW}.records.replicates {_NEW}.records.release",
        "trials": f"{_NEW}.training.trials",
    },
)
