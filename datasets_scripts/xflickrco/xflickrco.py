"""xFlickr&CO (Bugliarello et al. 2022) as a `datasets` loading script."""

import re

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_RAW = (
    "https://raw.githubusercontent.com/e-bug/iglue/43cbac91513388d40b2c6d93925f00ca9fc08a98/"
    "datasets/xFlickrCO/annotations"
)
# language → split, as its file is named → SHA-256
_FILES = {
    "de": {
        "test": "647785be2836736b0065199424898aeec964a5cc4b436ec26e371026e8509d87",
        "train_1": "d58a11b825d4ea7cd494e2f47a3ff570c3eda298e8782bf766c9133b0b667924",
        "train_5": "3bbdfe39c5e9990780b89a109111b713689677e24184e65d47864e7ff19551ec",
        "train_10": "8dbc1f56f6c6fa0d74dafb8505776c5c1d7d4ea171985719671f71cfb3fe5b1c",
        "train_25": "31dbf93e2b124d59d38f43df1799667cbc6315b03c2f9801f5b3f2312511e6df",
        "train_50": "a8f20b2371d8c990283ac7900828a17fb667bc9437102090c6ae595133849aa0",
        "train_100": "6c65edcab6de224a39e0081dfd5037f612fe8cb17c69a8d135c9a17cb49aa158",
        "train_200": "3abdddc370bf4367025634cff89967669195416550091849582f6268849356f1",
        "train_500": "a9fe5b090deb7f2747d4b3196b44715e4321e13c0dafd27131ea89a3f56129d5",
        "train_1000": "88b7ec12d8b89ab5e0d25cf7a2861b9fdc31c52c80e367cba510ba15510a15ce",
        "train_1500": "a2755ba40dbceb4000e9f6a8d68c175ae88000c5d094ab96b58a59bc0342241f",
        "train_100x5": "44325ffc15f5488f83264277c5d81857f0ac8e416c8171faee97307c3f33a796",
        "train_200x5": "451bf80a8c993468d828d8b7e58d813a1e783ecf858ac95fcc879b406181afc5",
    },
    "en": {
        "test": "96f102fceef19da2d35a905a42970de88bd6d0d3d8182b05e496bb11a27ee6cd",
    },
    "es": {
        "test": "9b968f6df79a64a39f52f130f32f0c7581dfc25c63523334ae12eee94b23ce10",
        "train_1": "e0dfa225b38fe59b5b238a75c30ae6dbdd120e37a59b4c86793cebe30a46dceb",
        "train_5": "6692b5e58b1ff91af547fb8fc57ce2120f587dbe66d99059247b2ff5d474e8c5",
        "train_10": "1217408de762558f74a7ee25d65fe24fd40c108fa93c3b7a9da46931e1742ecc",
        "train_25": "55282f919c91cd9edc57f89ea15b8e371cc76d2955ae05a0821e52c69a7a8c35",
        "train_50": "9f28338fdaf0fc3918db8fd4f9fa63364fc2aaf882e021291ba760f0822400e2",
        "train_100": "c96738d52636e04eb2c0b754ae39f703e1b0e1a64ba376bb7f946225e9fba3b8",
    },
    "id": {
        "test": "d392e97e8ca2ff9c8a7968715ff67efabacd4a039e4134b4b8e645fa9ba7b9b2",
        "train_1": "f185c14ac29cdc3cfe279a35356c2cbc8f2e08c00b9b556964de7b2142f71313",
        "train_5": "a1167b1b1e020401f3dd611b69749253717f30a6e9ec004f88c91056b6cc8b1f",
        "train_10": "8f979057e9cfdcc08b8e56d88579b3d115dc6e12ab70e6e50c4c27ac56b155fe",
        "train_25": "eabba8e20316e03df7560829a76b0ccb01fcfed32fcd3167c11694888df6d6a9",
        "train_50": "7b3ed0f0748fe0dde8f67353634339e8906ff8440cc1ef3046d4933e2d71fdf3",
        "train_100": "2fa04fde9204531d1f4e07cecc524f6a4bdbab8f28e0df90a0f80967ff3fa844",
    },
    "ja": {
        "test": "b5a08a6ce93a4184b94ff94c87e34794fee828d3414b85fe2b52bb8a19689636",
        "train_1": "8ab8aa96bc75132234155009f6998db3176a5658b3611ebb9f4126f777a3a4aa",
        "train_5": "6b657ef400956d8260e6125a787a1f6b648c14703d4e5c09a5d80990eb892f0e",
        "train_10": "350c7b35cd202d5ff1af3ef7c6ba46d41c7096d0cecaebc2859e1801987d9017",
        "train_25": "a0315d99ce95692674a23ddc730ef606120a3b61e7da111a3eaf466b795e40cc",
        "train_50": "508a16d7662300815afdd1cb3b730898dc55494d6f43d4874487cc6c8e043701",
        "train_100": "c6b86ab59863abdbf2ac27a2d9b97e18d9cff4cccf4133203ec34248978b3530",
        "train_200": "98940860dadd195c8da660588df3fd503f2a0f5498283ed7568c74acd0daaa8c",
        "train_500": "056773c9f1ecde8b9a23fc70225158627bad2e4d5552cee471b86d1c1bace324",
        "train_1000": "98bb3b6fe97f9f702a8afbdeee6d40ab6a85973f122def640700e27b901ddebb",
        "train_1500": "1982cec1ae3ff4cc1ba7045a11a61f11b5d81dcdce4f1506e73f642eb2b95c98",
        "train_100x5": "d1e01fa133b86fbd842352480897ce79574ec41829c1c646473540e27926309d",
        "train_200x5": "5a7a5218af3183ef2ea04259a46a21fc2cfffcaab7c582185db45c10863d8399",
    },
    "ru": {
        "test": "50514b959489443ccca3bb2a135333f92d46d958337a40f10e89b4135ea2690d",
        "train_1": "ee1216a6ecc13f52ea585ba09cd99d1d104fc6b3b4684e0fba4ddb755b0951a8",
        "train_5": "29ef027294258dc7d69df9d7ec988b46fec69573b5fb4c299bdf1a9fc117fb88",
        "train_10": "09d8e461fc259a0e9c651b9233c1aff35631ea04daf1c56b36b25b159a10a247",
        "train_25": "9290d093b035684f0b27674bc3105a0ba07e52ec28b70f473e81657e797b1769",
        "train_50": "6369b947551714144e50ebd9437b2e61caf91982514da83cbff287ba6511554f",
        "train_100": "4e9597bb20d8537cacc55ed5261485c04d900cd5b5de472028fbc57621de4e4b",
    },
    "tr": {
        "test": "a5aff0830de3158a873992c944ae4b6782b527e405a12ef5b7c89b0b0636526b",
        "train_1": "1ef2d1f4418d4aaabbb8234bcdb0fc49de7417aff7cf9da35a8d8c4687981f34",
        "train_5": "419f5c055d0fa33213bea9f36cf415a9c376b32fe294d905b915fb1d6d55cca9",
        "train_10": "43459d2249dd4152b1049252c82fa017fcda7770041fb6fd71319832b622e00c",
        "train_25": "2bfefac0adafa6ed1ee58b7ce1d0a3968827209c2e3c9ff6eb1a62b997e5a67a",
        "train_50": "7df59540ff45f63c39150f9ae80271a6a30916d1dd814a4ccf11695fe9b05257",
        "train_100": "03873e0d9e21909b88b14689b8c24d8ed9e10af55e5d34338618a67aa8c6c810",
    },
    "zh": {
        "test": "393319895e096f81e376460bcd1289d2664c592b2a9b6f3bf5bdc17c51499698",
        "train_1": "fdcd037c9d241d9777e7174ab3f1d2f70b9910815054314b30eb0dad84d869c0",
        "train_5": "fa2ee730d1b37f1325748465fe252b0eef51026343ff69dcec6894a9e1add93d",
        "train_10": "70eec96c2c197b7daec745d26cf6c79e0434e788d202e869025e3277a6a31ad2",
        "train_25": "8765b1569da57c268de8cc34393a098875ee090acecffe9aa0fff0c5dfb17531",
        "train_50": "02083ad26437bde98679fbf5ed4bb33e473e6398c9358cc50d642f6a31ff71ff",
        "train_100": "5f2ca6f83cec857f3fb9cdda171209060fb3efdf120091f23d88339ef323e477",
    },
}
# The published tests lack the caption of one photo in German and of one in Indonesian.
_WITHOUT_CAPTION = {"de": "COCO_val2014_000000122239.jpg", "id": "6312211170.jpg"}


def _file(language, split, sha256):
    folders = ("", "annotations/", "xFlickrCO/annotations/", "datasets/xFlickrCO/annotations/")
    source = "https://github.com/e-bug/iglue, folder datasets/xFlickrCO/annotations"
    return capscore.AnnotationFile.in_folders(f"{language}/{split}.jsonl", folders, source, _RAW, sha256)


def _counts(language, split):
    """Published numbers: a split "train_200x5" has 200 photos with five captions each."""
    if split == "test":
        return {"rows": 2000, "images": 2000, "captions": 2000 - (language in _WITHOUT_CAPTION)}
    photos, captions = map(int, re.fullmatch(r"train_(\d+)(?:x(\d+))?", split).groups(default="1"))
    return {"rows": photos, "images": photos, "captions": photos * captions}


class XFlickrCo(capscore.CaptionBenchmark):
    """2,000 photos, a thousand each of Flickr30k and COCO, with one caption each in eight languages.

    In seven of them, a few photos of Flickr30k are for few-shot training.
    """

    HOMEPAGE = "https://iglue-benchmark.github.io/"
    LICENSE = "mit (the repository); photos of Flickr30k and COCO by their authors"
    FILES = {
        f"{language}.{split}": _file(language, split, sha256)
        for language, splits in _FILES.items()
        for split, sha256 in splits.items()
    }
    IMAGES = capscore.ImageFolders(
        (*caption_files.FLICKR30K_FOLDERS, "val2014"),
        "Flickr30k, by request from its authors (flickr30k-images.tar.gz), and val2014.zip from "
        "https://cocodataset.org",
    )
    CONFIGS = {language: language for language in _FILES}
    SPLITS = tuple(_FILES["de"])
    COUNTS = {
        language: {split: _counts(language, split) for split in splits} for language, splits in _FILES.items()
    }
    FIELDS = {"references": [str], "id": str}

    def split_files(self, split):
        return [name for name in (f"{self.config.name}.{split}",) if name in self.FILES]

    def rows(self, split):
        language = self.config.name
        for row in self.file(f"{language}.{split}").jsonl():
            photo = row.identifier("img_path")
            is_without = split == "test" and photo == _WITHOUT_CAPTION.get(language)
            captions = [] if is_without and row["sentences"] == [""] else row.captions("sentences")
            if not row["sentences"]:
                raise row.wrong("sentences", "captions")
            # photos of COCO have numbers for ids
            identity = row["id"] if isinstance(row["id"], str) else str(row.integer("id"))
            yield photo, {"image_id": photo, "references": captions, "id": identity}
