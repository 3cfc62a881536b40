"""Demo of Fit: photo and captions in, probabilities out. `python app.py` starts it.

CAPSCORE_BACKBONE=embedded runs it without the Hub.
"""

from capscore.show.app import build_app, launch

demo = build_app("fit")

if __name__ == "__main__":
    launch(demo)
