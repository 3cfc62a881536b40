"""Builds the handbook: `python -m docs.handbook --output build/handbook`. Every warning is an error."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from .sources import write_sources


def build(output: Path) -> int:
    """Write the site into a folder; what was there before is replaced once the new one is whole.

    Args:
        output: Folder of the site.

    Returns:
        Sphinx's exit code; with another one than 0, the old site stays.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "html")
        write_sources(source)
        settings = str(Path(__file__).parent)
        code = build_main(["-b", "html", "-c", settings, "-W", "--keep-going", "-q", str(source), str(built)])
        if code == 0:
            shutil.rmtree(built / ".doctrees", ignore_errors=True)
            shutil.rmtree(output, ignore_errors=True)
            shutil.copytree(built, output)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/handbook"), help="folder of the site")
    output = parser.parse_args().output
    code = build(output)
    if code == 0:
        print(f"open {output / 'index.html'}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
