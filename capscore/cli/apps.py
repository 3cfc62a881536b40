"""The command `capscore app`: the demos in a browser."""

from __future__ import annotations

from typing import Annotated

from ..errors import CapscoreError, Setting
from ..registry import METRICS
from .options import complete_metrics, option
from .terminal import UsageError, as_usage, say


def run_app(
    metric: Annotated[
        str | None,
        option("A single metric. Default: all.", "--metric", "-m", autocompletion=complete_metrics),
    ] = None,
    host: Annotated[str, option("Address to listen on. Default: 127.0.0.1.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[
        int | None, option("Port. Default: the first free one from 7860.", min=1, max=65535)
    ] = None,
    backbone: Annotated[str | None, option("Name, Hub id or folder of the backbone.")] = None,
    device: Annotated[str | None, option("cpu, cuda, cuda:1. Default: a GPU.")] = None,
) -> None:
    """Start the demos in a browser: words and regions explained, captions scored by any metric.

    None of this machine's files are served, uploads are removed after an hour, and there is no telemetry.
    Photos and captions stay on this machine, unless a judge is behind a server (--backbone https://…, or
    CAPSCORE_JUDGE): then the app says what it sends, and to whom. Ctrl-C stops the app.

    Exit codes: 0 ended; 1 failed (the extra app is not installed, the port is taken); 2 wrong usage.

    Example: capscore app --metric infometic --backbone embedded
    """
    from ..show.app import build_app, launch, sent_elsewhere

    with as_usage():
        if backbone and metric and not METRICS.get(metric).takes_backbone:
            raise UsageError(Setting("backbone"), f" does not apply: {metric} has none")
        app = build_app(metric, backbone=backbone, device=device)
    for line in sent_elsewhere(metric, backbone):
        say(line)
    try:
        launch(app, server_name=host, server_port=port)
    except OSError as error:
        raise CapscoreError(f"the app could not be started: {error}") from error
    say("the app has ended")
