"""Everything that ships, made from its sources: the steps of `configs/embedded.yaml`, in order.

    python -m weights.making.sources fetch --to build/sources
    python -m weights.making.pipeline --out build/training [--sources build/sources] [--data DATA] \
        [--photos PHOTOS] [--tower embedded] [--only STEP …] [--dry-run]

Out: a file or folder per step. The same command skips finished steps, and resumes the one that was
interrupted. A step that was finished with other settings, or from other data, is an error that says what to
remove.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from capscore.errors import CapscoreError
from capscore.files.write import write_text
from training.engine.config import main as run_as_command

PLAN = Path(__file__).parent / "configs" / "embedded.yaml"
# File in the folder of the outcomes: step → digest of what it was made by.
DONE = "steps.json"


@dataclass(frozen=True)
class Step:
    """A step, as the plan describes it.

    In its options {data}, {photos}, {sources} and {out} stand for these folders, {tower} for the image tower.
    """

    name: str
    run: str  # module
    minutes: str  # how long it takes, in words
    makes: str  # file of the finished step, in the folder `out`
    config: str = ""  # file of its settings, beside the plan
    options: Mapping[str, str] = field(default_factory=dict)
    after: Sequence[str] = ()  # steps whose outcomes it takes
    of_tower: bool = False  # whether it is left out where an image tower is named

    def arguments(self, folders: Mapping[str, Path | str], plan: Path) -> list[str]:
        """The command line, without the program."""
        words = ["--config", str(plan.parent / self.config)] if self.config else []
        for name, value in self.options.items():
            words += [f"--{name}", value.format(**folders)]
        return words

    def digest(self, folders: Mapping[str, Path | str], plan: Path, before: Mapping[str, str]) -> str:
        """What the outcome was made by: the command, its settings, and the outcomes that it takes."""
        settings = (plan.parent / self.config).read_text(encoding="utf-8") if self.config else ""
        taken = [before.get(name, "") for name in self.after]
        known = json.dumps([self.run, self.arguments(folders, plan), settings, taken])
        return hashlib.sha256(known.encode()).hexdigest()[:16]


def read_plan(path: Path = PLAN) -> list[Step]:
    return [Step(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["steps"]]


def in_a_process(module: str, arguments: Sequence[str]) -> None:
    """Run a step's command; CapscoreError if it fails, which it has said itself."""
    found = subprocess.run([sys.executable, "-m", module, *arguments])
    if found.returncode:
        raise CapscoreError(f"python -m {module} ended with the exit status {found.returncode}")


def run_steps(
    steps: Sequence[Step],
    folders: Mapping[str, Path | str],
    *,
    plan: Path = PLAN,
    run: Callable[[str, Sequence[str]], None] = in_a_process,
) -> list[str]:
    """Run the steps that are not done; returns their names.

    `folders` are "data", "photos", "sources" and "out", and "tower", the image tower as
    `capscore.load_backbone` takes it. CapscoreError if a step fails or is not finished; the next call goes on
    with it.
    """
    out, ran = Path(folders["out"]), []
    known = out / DONE
    done: dict[str, str] = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
    for step in steps:
        digest, made = step.digest(folders, plan, done), out / step.makes
        if made.exists() and done.get(step.name) == digest:
            print(f"{step.name}: done before, {made}", flush=True)
            continue
        if made.exists() and step.name in done:
            raise CapscoreError(
                f"{step.name}: {made} was made with other settings or from other data: remove it, and the "
                "same command makes it again"
            )
        print(f"{step.name}: {step.minutes}", flush=True)
        began = time.monotonic()
        run(step.run, step.arguments(folders, plan))
        if not made.exists():
            raise CapscoreError(f"{step.name} is not finished, {made} is missing: the same command continues")
        done[step.name] = digest
        write_text(known, json.dumps(done, indent=1) + "\n", "steps")
        print(f"{step.name}: finished after {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
        ran.append(step.name)
    return ran


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [step.name for step in read_plan()]
    parser.add_argument("--out", type=Path, required=True, help="folder of the outcomes")
    parser.add_argument("--sources", type=Path, default=Path("build/sources"), help="default: %(default)s")
    parser.add_argument("--data", type=Path, help="folder of official files; default: that of the sources")
    parser.add_argument("--photos", type=Path, help="folder of photos; default: that of the sources")
    parser.add_argument("--tower", help="backbone to build on, such as embedded; default: a new image tower")
    parser.add_argument(
        "--only", nargs="+", default=names, choices=names, metavar="STEP", help="default: all"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    given = parser.parse_args(argv)
    steps = [step for step in read_plan() if step.name in given.only and not (given.tower and step.of_tower)]
    folders = {
        "sources": given.sources,
        "data": given.data or given.sources / "data",
        "photos": given.photos or given.sources / "photos",
        "out": given.out,
        "tower": given.tower or given.out / "image_tower",
    }
    if given.dry_run:
        for step in steps:
            print(f"python -m {step.run} {' '.join(step.arguments(folders, PLAN))}")
    else:
        run_steps(steps, folders)


if __name__ == "__main__":
    run_as_command(main)
