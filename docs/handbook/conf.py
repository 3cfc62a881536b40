"""Sphinx's settings for the handbook. Nothing is loaded from elsewhere when a page is read."""

import capscore

project = "capscore"
author = "the authors of capscore"
copyright = author
version = release = capscore.__version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
smartquotes = False  # they make a dash of the two before an option
html_theme = "furo"
html_title = f"capscore {version}"
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
