"""Demo of CLIPScore: photo and captions in, scores out. `python app.py` starts it.

CAPSCORE_BACKBONE=embedded-free runs it without the Hub.
"""

from capscore.show.app import build_app, launch

demo = build_app("clip_score")

if __name__ == "__main__":
    launch(demo)
