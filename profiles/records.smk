# Runs without pages, for machines that share no disk: the record of a run is one archive, which
# Snakemake stores where the profile says (S3, Google Cloud, Azure; or here, without a profile).
#   snakemake -s profiles/records.smk --workflow-profile profiles/kubernetes --config edition=cifar10
from calibkit import terms
from calibkit_companion.experiments.plan import EDITIONS, runs

EDITION = config.get("edition", "cifar10")
terms.choose("edition", EDITION, EDITIONS)
NAMES = [run.name for run in runs(config.get("paper", "book"), EDITION)]

localrules: all
wildcard_constraints: name="[^/]+"

rule all:
    input: expand("records/{name}.tar", name=NAMES)

rule record:
    output: "records/{name}.tar"
    threads: 1
    resources: gpu=0 if EDITIONS[EDITION].on_the_spot else 1
    shell:
        "CALIBKIT_CACHE=scratch python -m calibkit train {wildcards.name} --edition {EDITION} --quiet"
        " && tar -cf {output} -C scratch/runs {wildcards.name}"
