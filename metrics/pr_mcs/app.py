"""Demo of PR-MCS: a photo and captions in, their scores and the noise in them out.

`python app.py` starts it; the weights come with capscore-weights, so it needs no Hub.
"""

from capscore.show.app import build_app, launch

demo = build_app("pr_mcs")

if __name__ == "__main__":
    launch(demo)
