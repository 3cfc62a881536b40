"""Demo of Judge: photo and captions in, scores and the model's reasons out. `python app.py` starts it.

CAPSCORE_JUDGE names a smaller model than the default, or a folder.
"""

from capscore.show.app import build_app, launch

demo = build_app("judge")

if __name__ == "__main__":
    launch(demo)
