"""Demo of CIDEr: captions and references in, scores and shared words out.

`python app.py` starts it; it needs no model.
"""

from capscore.show.app import build_app, launch

demo = build_app("cider")

if __name__ == "__main__":
    launch(demo)
