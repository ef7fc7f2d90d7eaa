"""Measure how calibrated detectors are that people deploy, on data with known answers.

    python -m venv /tmp/wild
    /tmp/wild/bin/pip install magika==1.0.3 lingua-language-detector==2.1.1 langid==1.1.6 \\
        py3langid==0.4.0 pycld2==0.42 numpy==2.4.6 pandas==3.1.1 pyarrow pillow==13.0.0
    apt-get install tesseract-ocr fonts-dejavu-core fonts-liberation fonts-freefont-ttf
    /tmp/wild/bin/python benchmarks/in_the_wild.py [languages] [files] [words]

- *languages*: five detectors on short snippets of manual pages, whose language the package says;
- *files*: magika on the files of some packages, whose type the extension says;
- *words*: Tesseract on pages that are drawn here, so that their words are known.

Packages of Debian are downloaded and unpacked in a temporary folder. `in_the_wild.parquet` has a
row for each answer: detector, confidence, correct, group (language, extension, kind of page); the
confidence is missing where no answer was given. No text is kept. `in_the_wild.json` has the
versions. A part that is not named keeps its rows.
"""

import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

FOLDER = Path(__file__).resolve().parent.parent / "data_cache" / "released" / "public"
TABLE, ABOUT = FOLDER / "in_the_wild.parquet", FOLDER / "in_the_wild.json"
SNIPPETS = 150  # of a language, at most
FILES = 60  # of an extension, at most
LEAST_FILES = 5
VAGUE = {"txt", "obj", "pp"}  # extensions of more than one type
PAGES, WORDS = 9, 250  # of each kind of page, on a page


class Answer(NamedTuple):
    """What a detector said of one thing: how sure it was, and whether it was right."""

    detector: str
    confidence: float
    correct: bool
    group: str


def unpack(packages: list[str], folder: Path) -> dict[str, str]:
    """Download and unpack packages of Debian; their versions by name."""
    (debs := folder / "debs").mkdir(exist_ok=True)
    subprocess.run(["apt-get", "download", "-q", *packages], cwd=debs, check=True)
    for path in sorted(debs.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(path), str(folder)], check=True)
    names = (path.stem.split("_") for path in sorted(debs.glob("*.deb")))
    return {name: number.replace("%3a", ":") for name, number, *_ in names}


# --- languages ------------------------------------------------------------------------------------

MANUALS = [
    *"manpages manpages-dev passwd login man-db adduser dpkg apt debhelper procps psmisc".split(),
    *"dpkg-dev debianutils devscripts po-debconf aptitude".split(),
    *(f"manpages-{code}" for code in "da el fi hu id ja mk nb pt-br ro sr sv tr vi zh".split()),
    *(f"manpages-{code}" for code in "cs de es fr it nl pl ru uk".split()),
]
ANOTHER_SCRIPT = {"el", "ja", "ko", "mk", "ru", "sr", "uk", "zh"}
SAME = {"no": {"nb", "nn", "no"}}  # a detector may know Norwegian as one language or as two


def language_of(folder: str) -> str | None:
    """The language of a folder of manual pages: `pt_BR` is Portuguese, `man1` English."""
    if re.fullmatch(r"man\d", folder):
        return "en"
    code = re.match(r"[a-z]{2}(?=$|_)", folder)
    return code and code[0].replace("nb", "no")


def paragraphs(page: str) -> Iterator[str]:
    """Lines of plain text that follow each other, without the markup of roff.

    >>> list(paragraphs(".SH NAME\\nA \\\\fIfile\\\\fP is\\nread \\\\- or not.\\n.PP\\nNext."))
    ['A file is read - or not.', 'Next.']
    """
    text = re.sub(r"\\f(\[\w*\]|\(..|.)|\\[&|^/,%:]|\\s[+-]?\d", "", page)
    text = text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")
    part: list[str] = []
    for line in [*text.splitlines(), "."]:
        if line[:1] not in (".", "'", "") and "\\" not in line:
            part.append(line.strip())
        elif part:
            yield " ".join(part)
            part = []


def snippet(text: str, language: str, rng: random.Random) -> str | None:
    """Some 10 to 80 characters from the start of a word on; None where they are no prose.

    Prose has eight letters among ten characters other than blanks, in a language with a script of
    its own at least half of them beyond ASCII.
    """
    length = round(10 * 8 ** rng.random())
    starts = [m.start() for m in re.finditer(r"(?<!\S)\w", text) if m.start() + length <= len(text)]
    if not starts:
        return None
    start = rng.choice(starts)
    rest = re.match(r"\w*", text[start + length :])[0] if language not in ("ja", "zh") else ""
    found = text[start : start + length] + rest
    marks = re.sub(r"\s", "", found)
    letters = [c for c in marks if unicodedata.category(c)[0] in "LM"]
    if len(letters) < 0.8 * len(marks):
        return None
    if language in ANOTHER_SCRIPT and sum(c.isascii() for c in letters) > len(letters) / 2:
        return None
    return found


def snippets(folder: Path) -> list[tuple[str, str]]:
    """(language, text), at most one of a paragraph."""
    found = defaultdict(set)
    for path in sorted((folder / "usr/share/man").rglob("*.gz")):
        language = language_of(path.relative_to(folder / "usr/share/man").parts[0])
        if language and path.is_file():
            page = gzip.decompress(path.read_bytes()).decode(errors="ignore")
            found[language].update(p for p in paragraphs(page) if len(p) >= 40)
    rng, chosen = random.Random(0), []
    for language, texts in sorted(found.items()):
        # A translation is not always complete: "the" is a word of English alone.
        own = sorted(t for t in texts if language == "en" or not re.search(r"\bthe\b", t.lower()))
        rng.shuffle(own)
        tried = (snippet(text, language, rng) for text in own)
        its = [text for text in tried if text][:SNIPPETS]
        print(f"{language}: {len(own)} paragraphs, {len(its)} snippets", flush=True)
        chosen += [(language, text) for text in its]
    return chosen


def detectors() -> dict:
    """For each detector a function from a text to a language code and a confidence.

    The confidence is NaN where the detector gives no answer. What pycld2 calls "percent" is the
    share of the text that is in the language.
    """
    import langid.langid
    import py3langid.langid
    import pycld2
    from lingua import LanguageDetectorBuilder

    both = (
        langid.langid.LanguageIdentifier.from_modelstring(langid.langid.model, norm_probs=True),
        py3langid.langid.LanguageIdentifier.from_model_file(
            py3langid.langid.MODEL_FILE, norm_probs=True
        ),
    )

    def of_lingua(builder):
        detector = builder.build()

        def found(text):
            best = detector.compute_language_confidence_values(text)[0]
            return best.language.iso_code_639_1.name.lower(), best.value

        return found

    def of_cld2(text):
        _, _, ((_, code, percent, _), *_) = pycld2.detect(text)
        return code.partition("-")[0], float("nan") if code == "un" else percent / 100

    every = LanguageDetectorBuilder.from_all_languages()
    low = LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode()
    return {
        "lingua": of_lingua(every),
        "lingua, low accuracy": of_lingua(low),
        "langid": both[0].classify,
        "py3langid": both[1].classify,
        "pycld2": of_cld2,
    }


def languages(folder: Path) -> tuple[list[Answer], dict]:
    debian = unpack(MANUALS, folder)
    texts, answers = snippets(folder), []
    for name, detect in detectors().items():
        for language, text in texts:
            code, confidence = detect(text)
            right = code in SAME.get(language, {language})
            answers.append(Answer(name, float(confidence), right, language))
    names = "lingua-language-detector", "langid", "py3langid", "pycld2"
    return answers, {**{name: version(name) for name in names}, **debian}


# --- files ----------------------------------------------------------------------------------------

WITH_FILES = [
    *"golang-1.19-src rust-src python3.11-doc libboost1.74-dev libruby3.1".split(),
    *"texlive-latex-base texlive-latex-extra octave r-base-core erlang-dev elixir ghc-doc".split(),
    *"vim-runtime cmake-data node-typescript npm libjs-mathjax fonts-dejavu-core openscad".split(),
    *"fonts-lato sound-theme-freedesktop adwaita-icon-theme scala groovy mono-devel".split(),
    *"docbook-xml docbook-xsl postgresql-15 python3-matplotlib python-matplotlib-data".split(),
    *"python3-scipy ansible sphinx-doc inkscape libreoffice-common arduino-core-avr".split(),
    *"perl-modules-5.36 iverilog wireshark-common gnome-user-docs kotlin libtcl8.6".split(),
]


def files(folder: Path) -> tuple[list[Answer], dict]:
    import magika

    debian, detector = unpack(WITH_FILES, folder), magika.Magika()
    kinds = Path(magika.__file__).parent / "config" / "content_types_kb.min.json"
    kinds, by_extension = json.loads(kinds.read_text()), defaultdict(set)
    for label in map(str, detector.get_output_content_types()):
        for extension in kinds[label]["extensions"]:
            by_extension[extension].add(label)
    paths = defaultdict(list)
    for path in sorted((folder / "usr").rglob("*.*")):
        extension = path.suffix[1:]
        if len(by_extension[extension]) != 1 or extension in VAGUE:
            continue
        odd = "test" in str(path.relative_to(folder))  # often broken on purpose
        if path.is_file() and not path.is_symlink() and path.stat().st_size > 0 and not odd:
            paths[extension].append(path)
    rng, answers = random.Random(0), []
    for extension, its in sorted(paths.items()):
        if len(its) >= LEAST_FILES:
            for path in rng.sample(its, min(FILES, len(its))):
                found = detector.identify_path(path)
                label = str(found.output.label)
                confidence = float("nan") if label == "unknown" else found.score
                right = label in by_extension[extension]
                answers.append(Answer("magika", confidence, right, extension))
    return answers, {"magika": version("magika"), "its model": detector.get_model_name(), **debian}


# --- words ----------------------------------------------------------------------------------------

FONTS = {
    "DejaVu Serif": "/usr/share/fonts/truetype/dejavu/DejaVuSerif.ttf",
    "Liberation Sans": "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
    "FreeMono": "/usr/share/fonts/truetype/freefont/FreeMono.ttf",
}
KINDS = {  # of pages: size of the letters, blur (both in pixels) and noise (of 255)
    "clean": (24, 0, 0),
    "small": (12, 0.5, 15),
    "noisy": (20, 0.6, 35),
    "blurred": (20, 1.4, 20),
    "all three": (16, 0.8, 30),
}


def draw(words: list[str], font, blur: float, noise: float, rng: np.random.Generator):
    """A page of words, and for each word the box that it covers."""
    from PIL import Image, ImageDraw, ImageFilter

    image = Image.new("L", (1240, 900), 255)
    pen, boxes = ImageDraw.Draw(image), []
    x, y, line = 60, 60, round(1.6 * font.size)
    for word in words:
        width = pen.textlength(word, font=font)
        if x + width > image.width - 60:
            x, y = 60, y + line
        if y > image.height - 90:
            break
        pen.text((x, y), word, font=font, fill=0)
        boxes.append((x, y - line / 4, x + width, y + line))
        x += width + pen.textlength(" ", font=font)
    image = image.filter(ImageFilter.GaussianBlur(blur))
    pixels = np.asarray(image) + rng.normal(scale=noise, size=image.size[::-1])
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8)), boxes


def words(folder: Path) -> tuple[list[Answer], dict]:
    from PIL import ImageFont

    debian = unpack(["manpages", "manpages-dev"], folder)
    found = []
    for path in sorted((folder / "usr/share/man").rglob("*.gz")):
        found += paragraphs(gzip.decompress(path.read_bytes()).decode(errors="ignore"))
    rng = np.random.default_rng(0)
    texts = sorted({text for text in found if len(text) > 120})
    rng.shuffle(texts)
    text, answers, one_thread = iter(texts), [], os.environ | {"OMP_THREAD_LIMIT": "1"}
    for kind, (size, blur, noise) in KINDS.items():
        for page in range(PAGES):
            font = ImageFont.truetype([*FONTS.values()][page % len(FONTS)], size)
            some = " ".join(next(text) for _ in range(20)).split()[:WORDS]
            image, boxes = draw(some, font, blur, noise, rng)
            image.save(folder / "page.png", dpi=(150, 150))
            command = ["tesseract", "page.png", "-", "-l", "eng", "tsv"]
            done = subprocess.run(
                command, cwd=folder, env=one_thread, check=True, capture_output=True, text=True
            )
            answers += judged(done.stdout, some, boxes, kind)
    said = subprocess.run(["tesseract", "--version"], capture_output=True, text=True).stdout
    return answers, {"tesseract": said.split()[1], "pillow": version("pillow"), **debian}


def judged(tsv: str, words: list[str], boxes: list[tuple], kind: str) -> Iterator[Answer]:
    """Each word that was read, beside the word that stands where its middle is."""
    lines = [line.split("\t") for line in tsv.splitlines()]
    names = lines[0]
    for values in lines[1:]:
        row = dict(zip(names, values, strict=False))
        if row["level"] != "5" or not row.get("text", "").strip():
            continue
        left, top, width, height = (int(row[k]) for k in ("left", "top", "width", "height"))
        x, y = left + width / 2, top + height / 2
        there = [
            w for w, (x0, y0, x1, y1) in zip(words, boxes, strict=False)
            if x0 <= x <= x1 and y0 <= y <= y1
        ]  # fmt: skip
        yield Answer("Tesseract", float(row["conf"]) / 100, row["text"] in there, kind)


# --- the table ------------------------------------------------------------------------------------

PARTS = {"languages": languages, "files": files, "words": words}


def main() -> None:
    about = json.loads(ABOUT.read_text()) if ABOUT.exists() else {}
    table = pd.read_parquet(TABLE) if TABLE.exists() else pd.DataFrame()
    for part in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            answers, versions = PARTS[part](Path(folder))
        new = pd.DataFrame(answers)
        new["confidence"] = new.confidence.round(6).astype("float32")
        if len(table):
            table = table[~table.detector.isin(new.detector)]
        table = pd.concat([table, new], ignore_index=True)
        about[part] = versions
        print(new.groupby("detector").agg(
            n=("correct", "size"), confidence=("confidence", "mean"), right=("correct", "mean")
        ))  # fmt: skip
    table = table.astype({"detector": "category", "group": "category"})
    table.to_parquet(TABLE, index=False, compression="zstd")
    ABOUT.write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
