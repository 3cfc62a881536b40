"""The command `capscore app`: the demos in a browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..errors import Setting
from ..registry import METRICS
from .models import complete_metrics
from .request import flowing, option
from .terminal import UsageError, as_usage, say

_HELP = """Start the demos in a browser: all metrics, and a comparison of systems.

Nothing leaves this machine: no file of it is served, uploads are removed after an hour, and there is no
telemetry. Ctrl-C ends it.

Exit codes: 0 ended; 1 failed (the extra app is not installed, the port is taken); 2 wrong usage.

Example: capscore app --metric infometic --backbone embedded
"""


def app_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class AppRequest:
    """What `capscore app` is asked for."""

    metric: Annotated[
        str | None,
        option("One metric alone. Default: all.", "--metric", "-m", autocompletion=complete_metrics),
    ] = None
    host: Annotated[str, option("Address to listen at. Default: 127.0.0.1.", metavar="HOST")] = "127.0.0.1"
    port: Annotated[int | None, option("Port. Default: the first free one from 7860.", min=1, max=65535)] = (
        None
    )
    backbone: Annotated[str | None, option("Name, Hub id or folder of the backbone.")] = None
    device: Annotated[str | None, option("Torch device, such as cpu or cuda:1.")] = None


def run_app(request: AppRequest) -> None:
    """Start the page, and stay until it is ended."""
    from ..show.app_parts import launch
    from ..show.combined_app import combined_app
    from ..show.demo_app import build_app

    with as_usage():
        if request.backbone and request.metric and not METRICS.get(request.metric).takes_backbone:
            raise UsageError(Setting("backbone"), f" does not apply: {request.metric} has none")
        if request.metric is None:
            app = combined_app(backbone=request.backbone, device=request.device)
        else:
            app = build_app(request.metric, backbone=request.backbone, device=request.device)
    try:
        launch(app, server_name=request.host, server_port=request.port)
    except OSError as error:
        from ..errors import CapscoreError

        raise CapscoreError(f"the app could not be started: {error}") from error


def show_app(request: AppRequest, result: None) -> None:
    """Say that it ended."""
    say("the app has ended")
