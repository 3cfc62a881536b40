"""Pascal-50S (Vedantam et al. 2015) as a `datasets` loading script."""

import dataclasses
import hashlib

import capscore  # From: capscore

# authors of the two captions, by the official numbers 1 to 4: two people; two people, one of whom saw
# another photo; a person and a machine; two machines
_CATEGORIES = ("HC", "HI", "HM", "MM")
# votes per pair: which of the two is more similar to another caption of the photo
_VOTES = 48
_JSON = (
    "https://raw.githubusercontent.com/hjkim811/EXPERT/74bbef41209fce20551f2d707bc7642400d7eddf/"
    "annotations/pascal_50s.json"
)
_FOLDERS = [f"{parent}VOC{year}/JPEGImages" for parent in ("", "VOCdevkit/") for year in (2012, 2010, 2008)]
_HOMEPAGE = "https://vrama91.github.io/cider/"


def _mat(name):
    folders = ("", "pyCIDErConsensus/", "PASCAL-50S/", "pascal50S/")
    return capscore.AnnotationFile.in_folders(name, folders, f"PASCAL-50S at {_HOMEPAGE}")


@dataclasses.dataclass
class Pascal50sConfig(capscore.BenchmarkConfig):
    """Pascal-50S.

    Args:
        n_references: Number of references per pair, the first of the file: the JSON file has 5, the official
            ones have 48.
    """

    n_references: int = 5


class Pascal50s(capscore.CaptionBenchmark):
    """4,000 pairs of captions of 1,000 photos by people and machines, with the one that most votes prefer.

    There are 48 votes per pair, and 1,000 pairs in each of four categories.
    """

    BUILDER_CONFIG_CLASS = Pascal50sConfig
    HOMEPAGE = _HOMEPAGE
    LICENSE = "unknown; photos of PASCAL VOC, by their authors"
    FILES = {
        "labelled": capscore.AnnotationFile(
            ("pascal_50s.json", "annotations/pascal_50s.json"),
            f"{_JSON}, or pair_pascal.mat and consensus_pascal.mat at {_HOMEPAGE}",
            _JSON,
            "ce39b0a4021ab5f1add1430580fe24fd3fc58de3d03179a37466eb6ddd63fcdd",
        ),
        "pairs": _mat("pair_pascal.mat"),
        "votes": _mat("consensus_pascal.mat"),
    }
    IMAGES = capscore.ImageFolders(
        ("images", "JPEGImages", *_FOLDERS),
        "VOCtrainval_11-May-2012.tar from http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
    )
    COUNTS = {"default": {"test": {"rows": 4000, "images": 1000, **dict.fromkeys(_CATEGORIES, 1000)}}}
    FIELDS = {"captions": [str], "label": int, "category": str, "references": [str], "votes": [int]}

    def rows(self, split):
        n_references = self.config.n_references
        if n_references < 0:
            raise capscore.InputError(f"{n_references}: expected 0 to 48", field="n_references")
        is_voted = self.find("labelled") is None and self.find("pairs") is not None
        for key, row, columns in self._voted() if is_voted else self._labelled():
            if len(columns["references"]) < n_references:
                raise row.error(f"has {len(columns['references'])} references, expected {n_references}")
            yield key, {**columns, "references": columns["references"][:n_references]}

    def count(self, rows):
        categories = [row["category"] for row in rows]
        return {**super().count(rows), **{name: categories.count(name) for name in _CATEGORIES}}

    def _labelled(self):
        """The JSON file, in which ties of votes are broken and frozen."""
        document = self.file("labelled").json()
        for category in _CATEGORIES:
            for number, pair in enumerate(document.rows(category)):
                captions = pair.captions("captions")
                if len(captions) != 2:
                    raise pair.wrong("captions", "two captions")
                references = pair.captions("references")
                label = pair.integer("label", 0, 1)
                columns = _columns(pair.photo("image"), captions, label, category, references, [])
                yield f"{category}|{number}", pair, columns

    def _voted(self):
        """The official files: pairs with their categories, and 48 votes for each."""
        pairs_file, votes_file = self.file("pairs"), self.file("votes")
        pairs = _read_mat(pairs_file, {"new_input": 3, "category": 0})
        triplets = _read_mat(votes_file, {"triplets": 4})["triplets"]
        n = len(pairs["new_input"])
        if len(pairs["category"]) != n:
            raise pairs_file.error(f"has {n} pairs and {len(pairs['category'])} categories")
        if len(triplets) != _VOTES * n:
            raise votes_file.error(f"has {len(triplets)} votes, expected {_VOTES} for each of {n} pairs")
        by_category = {name: [] for name in _CATEGORIES}
        for entry, (pair, code) in enumerate(zip(pairs["new_input"], pairs["category"], strict=True)):
            row = pairs_file.row({"category": int(code)}, entry=entry)
            category = _CATEGORIES[row.integer("category", 1, len(_CATEGORIES)) - 1]
            photo, *captions = (_text(pairs_file, value, entry) for value in pair)
            own = triplets[_VOTES * entry : _VOTES * (entry + 1)]
            references, votes = self._votes(votes_file, own, captions, _VOTES * entry)
            label = int(votes[1] > votes[0])
            if votes[0] == votes[1]:
                # published code breaks ties at random; this choice is always the same, and `votes` shows it
                drawn = hashlib.sha256("\n".join([photo, *captions]).encode()).digest()
                label = drawn[0] % 2
            by_category[category].append((row, _columns(photo, captions, label, category, references, votes)))
        for category, rows in by_category.items():
            for number, (row, columns) in enumerate(rows):
                yield f"{category}|{number}", row, columns

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


def _columns(photo, *others):
    names = ("captions", "label", "category", "references", "votes")
    return {"image_id": photo.rpartition("/")[2], **dict(zip(names, others, strict=True))}


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
    return file.row({"text": _only(value)}, entry=entry).caption("text")
