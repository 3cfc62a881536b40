"""A metric that looks at photos: whether a caption says "bright" of bright photos, "dark" of dark ones."""

import numpy as np

import capscore
from capscore.images.load import content_key
from capscore.metrics.rows import Measured, row_settings
from capscore.registry import register_metric


@register_metric("mood")
class Mood(capscore.Scorer):
    """1 where the caption names the brightness of its photo, 0 where it names the other, else 0.5."""

    title = "Mood"
    score_range = (0, 1)
    needs_images = True
    value_names = ("mood",)

    def measure(self, rows, on_error):
        keys, moods = [""] * len(rows), {}
        for row in np.flatnonzero(rows.kept()).tolist():
            try:
                keys[row] = content_key(rows.images[row])
                light = np.asarray(capscore.load_image(rows.images[row])).mean() / 255
            except capscore.ImageError as error:
                if on_error == "raise":
                    raise error.at(row) from error
                rows.failures[row] = error
                continue
            said = [word in rows.candidates[row].lower() for word in ("bright", "dark")]
            moods[row] = 0.5 + (light - 0.5) * (said[0] - said[1])
        return Measured({"mood": np.array(list(moods.values()))}, keys, np.zeros(len(rows), dtype=bool))

    def finish(self, rows):
        return self.make_scores(
            rows, rows.values["mood"][rows.kept], {}, {**row_settings(rows), "version": "1.0"}
        )
