"""A metric that looks at photos: whether a caption says "bright" of bright photos, "dark" of dark ones."""

import numpy as np

import capscore
from capscore.embedding.photos import PhotoPipeline
from capscore.metrics.rows import row_settings
from capscore.registry import register_metric


@register_metric("mood")
class Mood(capscore.Scorer):
    """1 where the caption names the brightness of its photo, 0 where it names the other, else 0.5."""

    title = "Mood"
    score_range = (0, 1)
    needs_images = True
    value_names = ("mood",)

    def measure(self, rows, on_error):
        with PhotoPipeline().photos(rows.images, on_error=on_error, skip=rows.left_out()) as photos:
            light = dict(photos.each(lambda key, photo: np.asarray(photo).mean() / 255))
        rows.failures.update(photos.failures)
        moods = []
        for row in np.flatnonzero(rows.kept()):
            said = [word in rows.candidates[row].lower() for word in ("bright", "dark")]
            moods.append(0.5 + (light[photos.keys[row]] - 0.5) * (said[0] - said[1]))
        rows.image_keys = photos.keys
        return {"mood": np.array(moods)}

    def finish(self, rows):
        return self.make_scores(
            rows, rows.values["mood"][rows.kept], {}, {**row_settings(rows), "version": "1.0"}
        )
