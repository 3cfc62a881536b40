"""One Gradio page with a tab for every metric, and one that compares systems: `capscore app`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import MissingExtraError
from .app_parts import TITLES
from .compare_app import compare_app
from .demo_app import build_app
from .markup import render

if TYPE_CHECKING:
    import gradio


def combined_app(*, backbone: str | None = None, device: str | None = None) -> gradio.Blocks:
    """All demos on one page; `launch` starts it. A backbone is loaded when its tab is first used.

    Args:
        backbone: As in `capscore.load`, for every metric that has one; None takes each metric's own.
        device: Torch device; None takes a GPU where there is one.

    Raises:
        MissingExtraError: gradio is not installed.
    """
    try:
        import gradio as gr
    except ImportError:
        raise MissingExtraError("gradio", "app", "the app") from None
    pages = {TITLES[metric]: build_app(metric, backbone=backbone, device=device) for metric in _ORDER}
    pages["Compare systems"] = compare_app(gr)
    with gr.Blocks(title="capscore", analytics_enabled=False, delete_cache=(600, 3600)) as app:
        gr.HTML(render("app_style.html"))
        with gr.Tabs():
            for title, page in pages.items():
                with gr.Tab(title):
                    page.render()
    return app


# what explains comes first
_ORDER = ("infometic", "mcs", "pr_mcs", "ref_clip_score", "clip_score", "cider")
assert set(_ORDER) == set(TITLES)
