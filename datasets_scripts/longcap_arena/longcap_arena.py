"""LongCap-Arena (Matsuda et al. 2025) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import polaris_format

_HUB = "https://huggingface.co/datasets/Ka2ukiMatsuda/LongCap-Arena"
_ASPECTS = {"descriptiveness": "desc", "relevance": "rel", "fluency": "flu"}
# the paper's two test sets, in files of their own; their photos and references are DCI's
_TESTS = {"test_a": "dci_val", "test_b": "dci_test"}


def _files():
    files = {}
    for aspect, short in _ASPECTS.items():
        for split, name in (("train", "train"), ("validation", "val"), ("test", "test"), *_TESTS.items()):
            shards = (f"data/{name}.{short}-*.parquet", f"{name}.{short}-*.parquet")
            config, split = (f"{split}_{aspect}", "test") if split in _TESTS else (aspect, split)
            files[f"{config}_{split}_parquet"] = capscore.AnnotationFile(shards, _HUB)
            if name in _TESTS.values():
                files[f"{config}_test_csv"] = capscore.AnnotationFile.in_folders(
                    f"{short}_{name}.csv", ("", "test/"), "https://github.com/Ka2ukiMatsuda/VELA"
                )
    return files


class LongcapArena(polaris_format.RatedCaptions):
    """Long captions of 7,805 photos by vision-language models, which people rated for three aspects (0 to 1).

    The aspects are descriptiveness, relevance and fluency; references are long, too.
    """

    HOMEPAGE = "https://vela.kinsta.page"
    LICENSE = "bsd-3-clause-clear; photos by the licence of SA-1B"
    CONFIGS = {
        name: "en" for aspect in _ASPECTS for name in (aspect, *(f"{test}_{aspect}" for test in _TESTS))
    }
    DEFAULT_CONFIG_NAME = "test_a_descriptiveness"
    FILES = _files()
    IMAGES = capscore.ImageFolders(
        ("images", "longcap_arena/images"), f"the Parquet files of {_HUB} hold them"
    )

    def file_key(self, split):
        return f"{self.config.name}_{split}"
