"""Multi30k (Elliott et al. 2016, 2017; Barrault et al. 2018) as a `datasets` loading script."""

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_RAW = "https://raw.githubusercontent.com/multi30k/dataset/2cc0f2d7c615b60e07e2d51bb5edc004444d7e0e/data"
# split's name in the files → image list, then language → SHA-256 of its captions
_TASK1 = {
    "train": {
        "images": "97ee57e160a46c7d0e75298ebf57967e1245698a6f8806436ff07e61d1a41221",
        "en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        "de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        "fr": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
        "cs": "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077",
    },
    "val": {
        "images": "db26f03eaf833ec47bfaea129ed053b68cbcfc5d1f9a09c4cdf7c88fbfea7108",
        "en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
        "de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
        "fr": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
        "cs": "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc",
    },
    "test_2016_flickr": {
        "images": "871e8ecafc66fb13e044ecccf669d04a865b4c58553227df86b933f0337a1563",
        "en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        "de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        "fr": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
        "cs": "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1",
    },
    "test_2017_flickr": {
        "images": "7bef9b1eb747593c23a8597e830ac804d28180d1226c1d6e5bc3f08ccc561e85",
        "en": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
        "de": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
        "fr": "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
    },
    "test_2017_mscoco": {
        "images": "8f976b3c0beed9d96c918fb41e36178f1af11f0ff61d964592b80f932cb5c6d8",
        "en": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
        "de": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
        "fr": "754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0",
    },
    "test_2018_flickr": {
        "images": "8922c98be3e2b6866cd27d90e855214c2d9437fb9ebe406cdcde0edb786b4b95",
        "en": "ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d",
        "de": "ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608",
        "fr": "fb2b83fcceb937a4f7e3e93c1c51c22aba92f1e342391e6b5ba392b16a920501",
        "cs": "7d0a9db904f94c554a8c58049a9f3a5357c27f46cc3d710d70cb0b4a2585b8c2",
    },
}
# split's name in the files → image list, then language → SHA-256 of its five files, in order
_TASK2 = {
    "train": {
        "images": "97ee57e160a46c7d0e75298ebf57967e1245698a6f8806436ff07e61d1a41221",
        "en": (
            "a0e057f07a9733199c0d755d77f6d583dc6f40a3180734b1130a216e2fdf3a3b",
            "d79dd70a9eafb2d1fe40151621278c4ae69b3c148c5052a53d7c7a41bf3ba023",
            "86e16fdcc699bcb6bca0f87c3cf1051f7de5ee3674dd588cedc5200194282749",
            "3771b84e010ad6197806d2a1188cb07c12149e3e0d178dd5966dee5763733686",
            "73988689307fe836994eae59735dc840c15da9775455fa76e6ed22606a042a91",
        ),
        "de": (
            "0002241b52aba5160c08d644ea0d64a9bf46a2dfffcf619c9e3cdaa55b357004",
            "ac7c29258b90aec0b64d677c5bfc831fc402e6296d0aa9cc7a3433ddbff85c37",
            "ec5e6508813814aa31311b34e26e24f903dd7701f8d0668313259b7f975d7aa0",
            "bcee8ac6eb47d8a7dc8cff47d9a0fbd80b4363cfda22021bacd297f9604221a4",
            "dccb0ca6ff25e0b1f0d385f59fb809184e0db89622d88371725e3ec46d43bfc0",
        ),
    },
    "val": {
        "images": "db26f03eaf833ec47bfaea129ed053b68cbcfc5d1f9a09c4cdf7c88fbfea7108",
        "en": (
            "4ce8f8ffbef4a1c066e3f35a5ffc764666c26c318a733d9bdc6349577f1c6f9c",
            "4103944d652127e5af33ba2761d71cb6c0e1509c1a67d4387dc67ad768cfb752",
            "6ecd848713d98faa9c6db2e9e457a778335358e6e3a4743cf4e929a0516e399a",
            "bfab4f0cbdac6233f206bbbfbd324dc02b258e291c3f410a69f9884171008788",
            "4b6a6541b7b58d545eff7feead4187aeb0439a7178a7bed6951121e0ecbaee66",
        ),
        "de": (
            "a6b9ad98bdab8882d2ac40d1bc05db89341947162c07d2d0d27e80f01897ba05",
            "dbbf0f8fa54fdb4a3c64d22a1c0773ade3f775c39e4513ab5ca6d683025086dc",
            "5eac83b577fe9bc781e60b609545123804e9dd29de4c2bd1b9e178ad8b29a1da",
            "1c3054cfd1e47f17d8a20fcec6615cfd26d7dc2c8c4ef4625cd9db9f4e4590ea",
            "185d6cb907313e6a6eef76f09c657e5748e08ee3c7a5b26200186e171e2c8344",
        ),
    },
    "test_2016": {
        "images": "871e8ecafc66fb13e044ecccf669d04a865b4c58553227df86b933f0337a1563",
        "en": (
            "bf64274c8e1f73ba57d47409f707a640b3874a06e7e83adfb5a6d4c055bc6b29",
            "36c12dac199e336e74ebe91c5240a1c6cefce7af2a3f3a2054d184947932bc3c",
            "2188662d22b01c5ecf7ae6a7c003b45fc83c510d34999c2340078e75088b0f1f",
            "dcb6a0ad2ae40f54a1f9e9f20d3146c7f0a662feece2e78d2d511667bf229f08",
            "60e31317f0d960aed273d8ec527411935fb1ff3dee2c9cc9572259739ff193c0",
        ),
        "de": (
            "cf83315ea2e76c517fb41553ff25c7128d071397928a6b66a5d81479aeea950b",
            "327af090d22ddf624fe638f34e815b249bdfa033e3e48f55474e21d6b28efaa8",
            "b3236b4834c944cd42e6942da9041fee210cb2875574deefd41f130e5651a61b",
            "3843a960dc2c026d5d371c720cce830b6709d03c2f29e17b2923af11497da2c0",
            "c861f68362c443b07c8f919a9bd8c8ecd7f5fccf2b13bf4d4bd8e7fe8783880e",
        ),
    },
}
# published number of photos; each has one caption per language in task 1, five in task 2
_PHOTOS = {
    "train": 29000,
    "validation": 1014,
    "test_2016_flickr": 1000,
    "test_2017_flickr": 1000,
    "test_2017_mscoco": 461,
    "test_2018_flickr": 1071,
    "test_2016": 1000,
}
# configuration → its files, language, captions of a photo
_CONFIGS = {
    **{language: (_TASK1, language, 1) for language in ("en", "de", "fr", "cs")},
    **{f"task2_{language}": (_TASK2, language, 5) for language in ("en", "de")},
}


def _file(task, folder, name, sha256):
    """A file at its path in the repository, or without the folders above it; captions may be unpacked."""
    places = [f"{above}{folder}/{name}" for above in (f"data/{task}/", f"{task}/", "")]
    if folder == "raw":
        places.append(name)
    places += [place.removesuffix(".gz") for place in places if place.endswith(".gz")]
    return capscore.AnnotationFile(
        tuple(places),
        "https://github.com/multi30k/dataset, folder data",
        f"{_RAW}/{task}/{folder}/{name}",
        sha256,
    )


def _files():
    files = {}
    for split, known in _TASK1.items():
        files[f"{split}.images"] = _file("task1", "image_splits", f"{split}.txt", known["images"])
        for language in known.keys() - {"images"}:
            name = f"{split}.{language}"
            files[name] = _file("task1", "raw", f"{name}.gz", known[language])
    for split, known in _TASK2.items():
        images = _file("task2", "image_splits", f"{split}_images.txt", known["images"])
        files[f"task2.{split}.images"] = images
        for language in known.keys() - {"images"}:
            for number, sha256 in enumerate(known[language], start=1):
                name = f"{split}.{number}.{language}"
                files[f"task2.{name}"] = _file("task2", "raw", f"{name}.gz", sha256)
    return files


class Multi30k(capscore.CaptionBenchmark):
    """Captions of photos of Flickr30k and of test photos of three years, in four languages.

    Task 1: one English caption of each photo, translated into German, French and Czech. Task 2: five English
    and five German captions of each photo of Flickr30k, written independently.
    """

    HOMEPAGE = "https://github.com/multi30k/dataset"
    LICENSE = "other: non-commercial research and education (terms of Flickr); the repository states none"
    FILES = _files()
    IMAGES = capscore.ImageFolders(
        (
            *caption_files.FLICKR30K_FOLDERS,
            *("test_2017-flickr-images", "test_2018-flickr-images", "train2014", "val2014"),
        ),
        "Flickr30k, by request from its authors; photos of the tests of 2017 and 2018 from "
        "https://github.com/multi30k/dataset; of COCO train2014 and val2014 from https://cocodataset.org",
    )
    CONFIGS = {config: language for config, (_, language, _) in _CONFIGS.items()}
    SPLITS = tuple(_PHOTOS)
    COUNTS = {
        config: {
            split: {"rows": photos, "images": photos, "captions": n_captions * photos}
            for split, photos in _PHOTOS.items()
            if language in files.get(split.replace("validation", "val"), ())
        }
        for config, (files, language, n_captions) in _CONFIGS.items()
    }
    FIELDS = {"references": [str], "coco_caption_id": int}

    def split_files(self, split):
        split = split.replace("validation", "val")
        names = [f"{split}.{self.config.language}"]
        if self.config.name.startswith("task2_"):
            names = [f"task2.{split}.{number}.{self.config.language}" for number in range(1, 6)]
        return [name for name in names if name in self.FILES]

    def rows(self, split):
        names = self.split_files(split)
        part = "task2." if self.config.name.startswith("task2_") else ""
        images = self.file(f"{part}{split.replace('validation', 'val')}.images")
        # a line break at the end makes no line; a blank line in between is one, and an error
        listed = [text.strip() for _, text in images.lines(ended=True)]
        columns = []
        for name in names:
            file = self.file(name)
            captions = [
                file.row({"caption": text}, line=line).caption("caption")
                for line, text in file.lines(ended=True)
            ]
            if len(captions) != len(listed):
                raise file.error(
                    f"has {len(captions):,} lines, and {images} lists {len(listed):,} photos: line n is the "
                    "caption of photo n, so neither may be cut short"
                )
            columns.append(captions)
        for line, (entry, *captions) in enumerate(zip(listed, *columns, strict=True), start=1):
            photo, sign, caption_id = entry.partition("#")
            if not photo or (sign and not caption_id.isdigit()):
                raise images.error(
                    f"{entry!r} is not a photo, or not a photo and caption id of COCO", line=line
                )
            number = int(caption_id) if sign else None
            yield entry, {"image_id": photo, "references": captions, "coco_caption_id": number}
