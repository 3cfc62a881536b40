"""DetailCaps-4870 (Dong et al. 2024) as a `datasets` loading script."""

import capscore  # From: capscore

_HUB = "https://huggingface.co/datasets/foundation-multimodal-models/DetailCaps-4870"
_REFERENCES = ("GT_Caption_GPT4O", "GT_Caption_GPT4V", "GT_Caption_Gemini15Pro")
_SYSTEMS = ("CogVLM", "ShareCaptioner", "LLaVA_v15")
_HIGHEST = 100  # more than any scale that grades are asked for on


class Detailcaps(capscore.CaptionBenchmark):
    """Detailed captions of 4,870 photos by three vision-language models, graded by GPT-4, with references.

    The references are descriptions of a photo by GPT-4o, GPT-4V and Gemini 1.5 Pro.
    """

    HOMEPAGE = "https://github.com/foundation-multimodal-models/CAPTURE"
    LICENSE = "cc-by-nc-sa-4.0; photos by the licences of their sources"
    FILES = {
        "graded": capscore.AnnotationFile(
            ("DetailCaps-4870.parquet", "data/DetailCaps-4870.parquet", "data/test-*.parquet"), _HUB
        )
    }
    IMAGES = capscore.ImageFolders((), f"the Parquet file of {_HUB} holds them")
    FIELDS = {
        "caption": str,
        "references": [str],
        "rating": float,
        "system": str,
        "source": str,
        "source_id": str,
    }

    def rows(self, split):
        number, without = 0, []
        for file in self.shards("graded") or [self.file("graded")]:
            for row in file.parquet():
                if row["GPT4_Eval"] is None:
                    without.append(f"{file}, entry {row.entry}")
                else:
                    yield from self._graded(number, row)
                number += 1
        if without:
            self.warn(
                f"{len(without):,} of {number:,} photos have no grades, and are left out: {without[0]} …"
            )

    def _graded(self, number, row):
        digest, content = row.held_photo("binary")
        name = f"{digest}.jpg"
        shared = {
            "image_id": name,
            "image": {"path": name, "bytes": content},
            "references": [row.caption(column) for column in _REFERENCES],
            "source": str(row.get("source") or ""),
            "source_id": str(row.get("image") or ""),
        }
        grades = row.document("GPT4_Eval")
        for system in dict.fromkeys((*_SYSTEMS, *grades)):
            columns = {
                "caption": row.caption(system),
                "rating": grades.number(system, 0, _HIGHEST),
                "system": system,
            }
            yield f"{number}-{system}", {**shared, **columns}
