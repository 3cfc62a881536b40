"""Demo of InfoMetIC: a photo and its captions in; wrong words, missed regions and scores out.

`python app.py` starts it; the backbone comes from PyPI, so it needs no Hub.
"""

from capscore.show.app import build_app, launch

demo = build_app("infometic")

if __name__ == "__main__":
    launch(demo)
