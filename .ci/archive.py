"""One file to keep: sources, records, the rendered book, and the sums of all of them.

    make archive        # renders the released pages, then runs this

Writes build/calibkit-VERSION.tar.gz and, beside it, the metadata of a Zenodo deposit made from
CITATION.cff. The archive of a commit has the same bytes wherever it is made of the same book::

    tar -xf calibkit-VERSION.tar.gz && cd calibkit-VERSION
    sha256sum --check --quiet SHA256SUMS
    make render         # the book again, from the pages in book/notebooks; html/ has it rendered
"""

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book" / "_build" / "html"


def git(*arguments: str) -> bytes:
    return subprocess.check_output(["git", "-C", str(ROOT), *arguments])


def tracked() -> dict[str, tuple[bytes, int]]:
    """What the commit holds: each file's bytes and mode. Links are kept as what they lead to."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", "HEAD"))) as sources:
        members = [m for m in sources if m.isfile() or m.issym()]
        return {m.name: (sources.extractfile(m).read(), m.mode & 0o755) for m in members}


def rendered(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {f"html/{p.relative_to(folder).as_posix()}": (p.read_bytes(), 0o644) for p in files}


def sums(files: dict[str, tuple[bytes, int]]) -> bytes:
    lines = (f"{hashlib.sha256(files[name][0]).hexdigest()}  {name}\n" for name in sorted(files))
    return "".join(lines).encode()


def write(path: Path, files: dict[str, tuple[bytes, int]], top: str, time: int) -> None:
    """A tar.gz in which nothing but the files' bytes, names and modes depends on the machine."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            data, mode = files[name]
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode, member.mtime = len(data), mode, time
            archive.addfile(member, io.BytesIO(data))


def deposit(citation: dict, commit: str) -> dict:
    """The metadata that Zenodo's form asks for."""
    return {
        "metadata": {
            "upload_type": "software",
            "title": citation["title"],
            "version": citation["version"],
            "creators": [{"name": author["name"]} for author in citation["authors"]],
            "description": f"{citation['title']}. Sources, the records of the released edition, "
            f"and the rendered book (html/index.html), of commit {commit}.",
            "license": citation["license"],
            "keywords": citation["keywords"],
            "related_identifiers": [
                {"relation": "isSupplementTo", "identifier": citation["repository-code"]}
            ],
        }
    }


def main(out: Path = ROOT / "build", book: Path = BOOK) -> Path:
    if not (book / "index.html").exists():
        raise SystemExit(f"no rendered book in {book}: run `make render` first")
    if changed := git("status", "--porcelain", "--untracked-files=no").decode():
        raise SystemExit(f"not committed, so not in the archive:\n{changed}")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    files = tracked() | rendered(book)
    files["SHA256SUMS"] = sums(files), 0o644
    top = f"calibkit-{citation['version']}"
    out.mkdir(exist_ok=True)
    path = out / f"{top}.tar.gz"
    write(path, files, top, int(git("log", "-1", "--format=%ct")))
    commit = git("rev-parse", "HEAD").decode().strip()
    described = json.dumps(deposit(citation, commit), indent=1, ensure_ascii=False)
    (out / f"{top}.zenodo.json").write_text(described + "\n", encoding="utf-8")
    print(f"{path} ({path.stat().st_size / 1e6:.0f} MB, {len(files)} files)")
    return path


if __name__ == "__main__":
    sys.exit(not main())
