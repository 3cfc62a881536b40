"""Crossmodal-3600 (Thapliyal et al. 2022) as a `datasets` loading script."""

import capscore  # From: capscore

_HOMEPAGE = "https://google.github.io/crossmodal-3600/"
_RAW = "https://raw.githubusercontent.com/google/crossmodal-3600/ad44c380c86cb1240666361caabaf5684507d0ef/web-data"
# the file's name of a language and its captions; together 261,375, as published
_COUNTED = """
ar 7367  bn 3600  cs 7207  da 7264  de 8643  el 7204  en 7200  es 8614  fa 7245  fi 7127  fil 7109
fr 8562  he 7200  hi 8503  hr 7280  hu 7216  id 7126  it 8471  ja 7185  ko 7650  mi 4732  nl 8059
no 7213  pl 7141  pt 7243  quz 7200  ro 7123  ru 7200  sv 7273  sw 7046  te 7200  th 7200  tr 7233
uk 7215  vi 7350  zh 7174
""".split()
_CAPTIONS = dict(zip(_COUNTED[::2], map(int, _COUNTED[1::2]), strict=True))
# Cusco Quechua; models and metrics know languages by their primary subtag
_SUBTAGS = {"quz": "qu"}
_PACKED = ("web-data/", "web-data/captions.zip::")
# column → the file's name of a caption in this form
_FORMS = {
    "references": "caption",
    "tokenized_references": "caption/tokenized",
    "lowercase_references": "caption/tokenized/lowercase",
}


class Xm3600(capscore.CaptionBenchmark):
    """261,375 captions of 3,600 photos in 36 languages, written by people who saw the photo, not translated.

    For each language, a hundred photos come from a region where it is spoken.
    """

    HOMEPAGE = _HOMEPAGE
    LICENSE = "cc-by-4.0; photos of Open Images, cc-by-2.0"
    FILES = {
        "captions": capscore.AnnotationFile(
            tuple(f"{folder}captions.jsonl" for folder in ("", "captions.zip::", *_PACKED)),
            f"captions.zip on {_HOMEPAGE}",
            url=f"{_RAW}/captions.zip",
            git_blob="29de2bbd39cbe93d97a0622b490fe3d4a1ed3eee",
        ),
        "image_ids": capscore.AnnotationFile.in_folders(
            "image_ids.txt",
            ("", "web-data/"),
            _HOMEPAGE,
            _RAW,
            "3eac43c45aca77a6a3022828fcfc7732872944561e3e67a9db072288d4ce323c",
        ),
    }
    IMAGES = capscore.ImageFolders(("images", "."), f"images.tgz on {_HOMEPAGE}")
    CONFIGS = {name: _SUBTAGS.get(name, name) for name in _CAPTIONS}
    COUNTS = {
        name: {"test": {"rows": 3600, "images": 3600, "captions": captions}}
        for name, captions in _CAPTIONS.items()
    }
    FIELDS = {**{name: [str] for name in _FORMS}, "image_locale": str}

    def rows(self, split):
        listed = self.find("image_ids")
        expected = listed and {text.strip() for _, text in listed.lines() if text.strip()}
        file = self.file("captions")
        seen = set()
        for row in file.jsonl():
            key = row.identifier("image/key")
            if expected is not None and key not in expected:
                raise row.error(f"photo {key} is not in image_ids.txt")
            seen.add(key)
            forms = file.row(row[self.config.name], line=row.line, entry=self.config.name)
            texts = {column: forms.captions(form) for column, form in _FORMS.items()}
            if not texts["references"]:
                raise forms.error(f"photo {key} has no captions")
            yield key, {"image_id": f"{key}.jpg", **texts, "image_locale": row.get("image/locale")}
        if expected is not None and seen != expected:
            raise file.error(
                f"has no captions of {len(expected - seen):,} of the {len(expected):,} photos in "
                f"image_ids.txt; one is {min(expected - seen)}"
            )
