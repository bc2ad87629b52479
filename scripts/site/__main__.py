"""`make site`: build/site from docs/, the READMEs and the code. It needs no network once installed.

1. Sphinx with its theme, from requirements/site.txt, into build/site-venv.
2. The pages into build/site-pages (`pages.py`); those of the reference are made from the code.
3. Sphinx, for which a warning is a failure.
4. The links of the built pages; those to other hosts are listed in build/site-links.txt.

Open build/site/index.html, or serve the folder by any web server.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from . import check, pages

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
SITE = BUILD / "site"
LOCK = ROOT / "requirements" / "site.txt"


def install() -> Path:
    """The environment of Sphinx, made anew when its lock changed; returns its Python."""
    folder = BUILD / "site-venv"
    stamp = folder / "lock.sha256"
    key = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    python = folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != key:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", python, "install", "--quiet",
             "--disable-pip-version-check", "--no-compile", "--require-hashes", "-r", LOCK],
            check=True,
        )  # fmt: skip
        stamp.write_text(key, encoding="utf-8")
    return python


def build() -> int:
    """Build the site; returns the exit code."""
    python = install()
    gathered = BUILD / "site-pages"
    pages.gather(gathered)
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run(
        [python, "-m", "sphinx", "--builder", "html", "--quiet", "--fail-on-warning",
         "--nitpicky", "--fresh-env", "--conf-dir", Path(__file__).parent,
         "--doctree-dir", BUILD / "site-doctrees", gathered, SITE],
    )  # fmt: skip
    if done.returncode:
        return done.returncode
    wrong = list(check.faults(SITE))
    for line in wrong:
        sys.stdout.write(f"site: {line}\n")
    links = check.external(SITE)
    (BUILD / "site-links.txt").write_text(
        "".join(f"{address}\t{', '.join(names)}\n" for address, names in links.items()),
        encoding="utf-8",
    )
    count = sum(1 for _ in SITE.rglob("*.html"))
    sys.stdout.write(f"site: {count} pages, {len(links)} addresses of other hosts\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(build())
