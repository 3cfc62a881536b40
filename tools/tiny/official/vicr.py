"""VICR in its CSV format, with the caption files of its photos."""

from tools.tiny.official import coco, write_json, write_lines

COCO = "COCO_val2014_000000000021.jpg"
LINES = [
    "image,caption,subset,num_ratings,ratings,rating_2,rating_3,rating_4,rating_5,rating_6,rating_7",
    f"http://images.cocodataset.org/val2014/{COCO},a dog is on the grass,train,4,4,3,5,4,,,",
    f'http://images.cocodataset.org/val2014/{COCO},"A dog, waiting",test,5,1,2,2,1,1,,',
    "777_e.jpg,Boys run .,test,4,5,5,4,5,,,",
    f"http://images.cocodataset.org/val2014/{COCO},A cat,val,4,1,1,1,1,,,",
]


def write(folder):
    """The table of ratings, which starts with a byte order mark, and captions of the photos."""
    write_lines(folder / "VICR.csv", ["\ufeff" + LINES[0], *LINES[1:]])
    captions = coco({21: COCO}, [(21, "A dog waiting."), (21, "Dog near a door ")])
    write_json(folder / "captions_val2014.json", captions)
    write_lines(folder / "Flickr8k.token.txt", ["777_e.jpg#0\tTwo boys run .", "777_e.jpg#1\tBoys run ."])


def write_sample(folder):
    """The public part, without captions of the photos."""
    write_lines(folder / "VICR_Sample250.csv", LINES)


PHOTOS = [f"val2014/{COCO}", "Flicker8k_Dataset/777_e.jpg"]
ROWS = {("default", "train"): 1, ("default", "validation"): 1, ("default", "test"): 2}
VARIANTS = {"sample": (write_sample, ROWS)}
DAMAGE = {
    ("default", "VICR.csv"): [
        ("subset", "split"),
        ("image,caption", "caption,image"),
        ("grass,train", "grass,dev"),
        ("train,4,4,3", "train,5,4,3"),
        ("train,4,4,3", "train,4,9,3"),
        ("train,4,4,3", "train,4,4,3.5"),
        ("a dog is on the grass", ""),
        (",1,1,1,1,,,\n", ",1,1"),
        ('"A dog, waiting"', '"A dog, waiting'),
        ("A cat,val", "a dog is on the grass,train"),
    ],
    ("default", "Flickr8k.token.txt"): [("777_e.jpg#1", "777_e.jpg#0")],
}
