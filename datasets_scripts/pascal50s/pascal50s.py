"""Pascal-50S (Vedantam et al. 2015) as a `datasets` loading script."""

import dataclasses
import hashlib

import datasets

import capscore  # From: capscore

_CITATION = """\
@inproceedings{vedantam2015cider,
  title = {{CIDEr}: Consensus-based Image Description Evaluation},
  author = {Vedantam, Ramakrishna and Zitnick, C. Lawrence and Parikh, Devi},
  booktitle = {Proceedings of the IEEE Conference on Computer Vision and Pattern Recognition},
  pages = {4566--4575}, year = {2015}}
"""
# authors of the two captions, by the official numbers 1 to 4: two people; two people, one of whom saw
# another photo; a person and a machine; two machines
_CATEGORIES = ("HC", "HI", "HM", "MM")
# votes per pair: which of the two is more similar to another caption of the photo
_VOTES = 48
_JSON = (
    "https://raw.githubusercontent.com/hjkim811/EXPERT/74bbef41209fce20551f2d707bc7642400d7eddf/"
    "annotations/pascal_50s.json"
)
_JSON_SHA256 = "ce39b0a4021ab5f1add1430580fe24fd3fc58de3d03179a37466eb6ddd63fcdd"
_HOMEPAGE = "https://vrama91.github.io/cider/"


def _mat(name):
    return capscore.AnnotationFile(
        (name, f"pyCIDErConsensus/{name}", f"PASCAL-50S/{name}", f"pascal50S/{name}"),
        source=f"PASCAL-50S at {_HOMEPAGE}",
        optional=True,
    )


@dataclasses.dataclass
class Pascal50sConfig(capscore.BenchmarkConfig):
    """Pascal-50S.

    Args:
        n_references: how many references a pair has, the first of the file: the JSON file has 5, the official
            ones have 48.
    """

    n_references: int = 5


class Pascal50s(capscore.CaptionBenchmark):
    """Pairs of captions of a photo, and which of them people find more similar to its other captions."""

    VERSION = "1.0.0"
    BUILDER_CONFIG_CLASS = Pascal50sConfig
    DESCRIPTION = (
        "4,000 pairs of captions of 1,000 photos, by people and machines, with the one that most of 48 votes "
        "prefer; 1,000 pairs in each of four categories."
    )
    CITATION = _CITATION
    HOMEPAGE = _HOMEPAGE
    LICENSE = "unknown; photos of PASCAL VOC, by their authors"
    FILES = {
        "labelled": capscore.AnnotationFile(
            ("pascal_50s.json", "annotations/pascal_50s.json"),
            url=_JSON,
            sha256=_JSON_SHA256,
            published=(_JSON_SHA256,),
            source=f"{_JSON}, or pair_pascal.mat and consensus_pascal.mat at {_HOMEPAGE}",
        ),
        "pairs": _mat("pair_pascal.mat"),
        "votes": _mat("consensus_pascal.mat"),
    }
    IMAGES = capscore.ImageFolders(
        (
            "images",
            "JPEGImages",
            *(
                f"{parent}VOC{year}/JPEGImages"
                for parent in ("", "VOCdevkit/")
                for year in (2012, 2010, 2008)
            ),
        ),
        source="VOCtrainval_11-May-2012.tar from http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
    )
    BUILDER_CONFIGS = [Pascal50sConfig(name="default", language="en", description="all four categories")]
    COUNTS = {"default": {"test": {"rows": 4000, "images": 1000, **dict.fromkeys(_CATEGORIES, 1000)}}}

    def fields(self):
        return {
            "captions": datasets.Sequence(datasets.Value("string")),
            "label": datasets.Value("int64"),
            "category": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "votes": datasets.Sequence(datasets.Value("int64")),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        if type(self.config.n_references) is not int or self.config.n_references < 0:
            raise capscore.InputError(
                f"n_references={self.config.n_references!r}: expected a number from 0 to 48",
                field="n_references",
            )
        if self.find("labelled") is None and self.find("pairs") is not None:
            yield from self._voted(self.file("pairs"), self.file("votes"))
        else:
            yield from self._labelled(self.file("labelled"))

    def count(self, rows):
        categories = [row["category"] for row in rows]
        return {**super().count(rows), **{name: categories.count(name) for name in _CATEGORIES}}

    def _row(self, file, photo, captions, label, category, references, votes, entry):
        if len(references) < self.config.n_references:
            raise file.error(
                f"there are {len(references)} references, and n_references={self.config.n_references} asks "
                "for more",
                entry=entry,
            )
        return {
            "image_id": photo.rpartition("/")[2],
            "captions": captions,
            "label": label,
            "category": category,
            "references": references[: self.config.n_references],
            "votes": votes,
            "language": "en",
        }

    def _labelled(self, file):
        """The JSON file, in which ties of votes are broken and frozen."""
        document = file.json()
        file.require(document, _CATEGORIES)
        for category in _CATEGORIES:
            for number, pair in enumerate(file.items(document[category], repr(category))):
                entry = f"{category} {number}"
                file.require(pair, ["image", "captions", "label", "references"], entry=entry)
                label = file.integer(pair["label"], "'label'", 0, 1, entry=entry)
                photo = file.photo(pair["image"], "'image'", entry=entry)
                captions = [
                    file.caption(text, "a caption", entry=entry)
                    for text in file.items(pair["captions"], "'captions'", entry=entry)
                ]
                references = [
                    file.caption(text, "a reference", entry=entry)
                    for text in file.items(pair["references"], "'references'", entry=entry)
                ]
                if len(captions) != 2:
                    raise file.error(f"there are {len(captions)} captions, expected 2", entry=entry)
                yield (
                    f"{category}|{number}",
                    self._row(file, photo, captions, label, category, references, [], entry),
                )

    def _voted(self, pairs_file, votes_file):
        """The official files: pairs with their categories, and 48 votes for each."""
        pairs = _read_mat(pairs_file, {"new_input": 3, "category": 0})
        triplets = _read_mat(votes_file, {"triplets": 4})["triplets"]
        if len(pairs["category"]) != len(pairs["new_input"]):
            raise pairs_file.error(
                f"has {len(pairs['new_input'])} pairs and {len(pairs['category'])} categories"
            )
        if len(triplets) != _VOTES * len(pairs["new_input"]):
            raise votes_file.error(
                f"has {len(triplets)} votes, expected {_VOTES} for each of {len(pairs['new_input'])} pairs"
            )
        by_category = {name: [] for name in _CATEGORIES}
        for entry, (pair, code) in enumerate(zip(pairs["new_input"], pairs["category"], strict=True)):
            if code not in range(1, len(_CATEGORIES) + 1):
                raise pairs_file.error(f"the category is {code}, expected 1 to 4", entry=entry)
            photo, *captions = (_text(pairs_file, value, entry) for value in pair)
            references, votes = self._votes(
                votes_file, triplets[_VOTES * entry : _VOTES * (entry + 1)], captions, _VOTES * entry
            )
            label = int(votes[1] > votes[0])
            if votes[0] == votes[1]:
                # published code breaks ties at random; this choice is always the same, and `votes` shows it
                drawn = hashlib.sha256("\n".join([photo, *captions]).encode()).digest()
                label = drawn[0] % 2
            category = _CATEGORIES[int(code) - 1]
            row = self._row(pairs_file, photo, captions, label, category, references, votes, entry)
            by_category[category].append(row)
        for category, rows in by_category.items():
            for number, row in enumerate(rows):
                yield f"{category}|{number}", row

    @staticmethod
    def _votes(file, triplets, captions, entry):
        """The references of a pair, and how often either caption was found more similar to them."""
        references, votes = [], [0, 0]
        for vote, (reference, first, second, winner) in enumerate(triplets, entry):
            shown = [_text(file, value, vote) for value in (first, second)]
            winner = _only(winner)
            if not isinstance(winner, (int, float)) or winner not in (1, -1):
                raise file.error(f"the winner is {winner!r}, expected 1 or -1", entry=vote)
            # the two may be shown in either order; two equal captions are told apart by their place
            swapped = shown == captions[::-1] and shown != captions
            if shown != captions and not swapped:
                raise file.error(f"compares {shown!r:.120}, but the pair is {captions!r:.120}", entry=vote)
            votes[int((winner == 1) == swapped)] += 1
            references.append(_text(file, reference, vote))
        return references, votes


def _read_mat(file, expected):
    """Variables of a MATLAB file, flat, by name; expected: name → fields of its structs (0: numbers)."""
    try:
        from scipy import io
    except ImportError:
        raise capscore.MissingExtraError("scipy", "pascal50s", "PASCAL-50S") from None

    damage = (io.matlab.MatReadError, ArithmeticError, LookupError, MemoryError, NotImplementedError)
    with file.open() as stream:
        try:
            found = io.loadmat(stream, variable_names=list(expected))
        except (*damage, OSError, TypeError, ValueError) as error:
            raise file.error(f"is not a MATLAB file of version 5, or cut short ({error})") from error
    for name, fields in expected.items():
        if name not in found:
            raise file.error(f"lacks the variable {name!r}")
        names = found[name].dtype.names or ()
        if len(names) != fields:
            raise file.error(f"{name!r} has {len(names)} fields, expected {fields}")
    return {name: found[name].ravel() for name in expected}


def _only(value):
    """The content of MATLAB's nested arrays of one element."""
    while getattr(value, "size", 0) == 1 and getattr(value, "ndim", 0) > 0:
        value = value.ravel()[0]
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _text(file, value, entry):
    return file.caption(_only(value), "a text", entry=entry)
