"""Uses an installation as somebody new would: scores, a module, a benchmark, the command, a page.

Runs in a clean environment, so nothing but the wheels may be imported.
"""

import json
import pathlib
import subprocess
import sys
from importlib.metadata import version

import evaluate
import gradio
import numpy as np
from PIL import Image

import capscore


def command(*words: str) -> str:
    program = pathlib.Path(sys.executable).with_name("capscore")
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def main() -> None:
    assert "site-packages" in capscore.__file__, capscore.__file__
    pixels = np.zeros((96, 96, 3), np.uint8)
    pixels[24:72, 24:72] = (200, 30, 30)
    Image.fromarray(pixels).save("square.png")
    captions = ["a red square", "zwei Hunde am Strand"]

    scores = capscore.load("mcs", backbone="embedded", device="cpu").score(
        captions, ["square.png"] * 2, language=["en", "de"]
    )
    assert scores.scores[0] > scores.scores[1] >= 0, scores.scores
    broken = capscore.load("pr_mcs", backbone="embedded-pr-mcs", device="cpu")
    assert np.isfinite(broken.score(captions, ["square.png"] * 2, language=["en", "de"]).scores).all()
    marked = capscore.load("infometic", backbone="embedded", device="cpu").score(
        captions[:1], ["square.png"], language="en"
    )
    assert marked.details, marked

    module = evaluate.load(capscore.module_folder("mcs"), backbone="embedded", device="cpu")
    results = module.compute(predictions=captions, images=["square.png"] * 2, language=["en", "de"])
    assert np.allclose(results["scores"], scores.scores, atol=1e-5)
    assert results["signature"] == scores.signature
    assert len(capscore.benchmark_slugs()) >= 23

    assert capscore.__version__ in command("--version")
    told = json.loads(
        command(
            *("score", "--photo", "square.png", "--caption", captions[0], "--backbone", "embedded"),
            *("--device", "cpu", "--language", "en", "--json"),
        )
    )
    assert "mcs" in json.dumps(told)
    command("explain", "square.png", captions[0], "--backbone", "embedded", "-o", "page.html")
    assert pathlib.Path("page.html").stat().st_size > 1000
    assert "Kim" in command("cite", scores.signature)
    gradio.Blocks()
    names = ("numpy", "torch", "transformers", "datasets", "evaluate", "huggingface_hub", "gradio")
    print(f"Python {sys.version.split()[0]};", ", ".join(f"{name} {version(name)}" for name in names))


if __name__ == "__main__":
    main()
