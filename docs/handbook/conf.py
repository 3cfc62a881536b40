"""Sphinx's settings for the handbook. Nothing is loaded from elsewhere when a page is read."""

import re

import capscore

project = "capscore"
author = "the authors of capscore"
copyright = author
version = release = capscore.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
default_role = "code"
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


def setup(app):
    """Ids such as org/name@revision are code; docutils would take them for mail addresses."""

    def mark_ids(app, what, name, value, options, lines):
        lines[:] = [re.sub(r"(^|[ (])(\w[\w/]*@\w+)(?=[ ,.:;)]|$)", r"\1``\2``", line) for line in lines]

    app.connect("autodoc-process-docstring", mark_ids)
