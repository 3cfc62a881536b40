"""Pixels that are decoded at the same time are bounded, over all threads, and nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from capscore.embedding import embedder as embedding
from capscore.embedding.embedder import Embedder
from capscore.errors import ImageError
from capscore.images import decoding
from capscore.images.encoded import EncodedFile
from capscore.images.in_flight import IN_FLIGHT, PixelsInFlight
from capscore.images.load import load_image

from ..photos import encode
from ..toy import ColourBackbone

SIDE = 60
LARGEST = SIDE * SIDE


@pytest.fixture(autouse=True)
def largest(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", LARGEST)
    monkeypatch.setattr(IN_FLIGHT, "most", 0)
    yield
    assert IN_FLIGHT.taken == 0


class Alive:
    """Counts the pixels of images that are decoded and not yet let go, apart from the account."""

    def __init__(self):
        self.lock, self.now, self.most = threading.Lock(), 0, 0
        self.together = threading.Event()

    def begin(self, pixels: int) -> None:
        with self.lock:
            self.now += pixels
            self.most = max(self.most, self.now)
            if self.now > pixels:
                self.together.set()
        self.together.wait(0.05)  # lets others in, if anything lets them

    def end(self, pixels: int) -> None:
        with self.lock:
            self.now -= pixels


def photos(count: int, side: int = SIDE) -> list[bytes]:
    return [encode(np.full((side, side, 3), number, np.uint8)) for number in range(count)]


class Slow(ColourBackbone):
    """A backbone that lets an image go after its preprocessing."""

    alive: Alive
    kept: frozenset[int] = frozenset()

    def preprocess(self, image):
        pixels = super().preprocess(image)
        if image.getpixel((0, 0))[0] not in self.kept:
            self.alive.end(image.width * image.height)
        return pixels


@pytest.fixture
def alive(monkeypatch):
    counter = Alive()
    upright = decoding._upright_rgb

    def counted(image, name):
        counter.begin(image.width * image.height)
        return upright(image, name)

    monkeypatch.setattr(decoding, "_upright_rgb", counted)
    return counter


def embedder(alive: Alive, **options) -> Embedder:
    backbone = Slow()
    backbone.alive = alive
    made = Embedder(backbone, **options)
    made.workers = 4
    return made


def test_four_photos_of_the_largest_size_are_decoded_one_after_the_other(alive):
    rows = embedder(alive).images(photos(4))
    assert len(rows.matrix) == 4
    assert LARGEST <= alive.most <= 1.25 * LARGEST
    assert IN_FLIGHT.most <= 1.25 * LARGEST


def test_small_photos_are_decoded_together(alive):
    embedder(alive).images(photos(12, SIDE // 4))
    assert alive.most >= 2 * (SIDE // 4) ** 2


def test_a_reader_of_whole_images_holds_no_more(alive):
    class Reader:
        seen = 0

        def wanted(self, keys):
            return keys

        def look(self, images):
            self.seen += len(images)
            for image in images.values():
                alive.end(image.width * image.height)

    reader = Reader()
    made = embedder(alive)
    made.backbone.kept = frozenset(range(256))
    mixed = [photo for pair in zip(photos(6), photos(6, 20), strict=True) for photo in pair]
    rows = made.images(mixed, reader=reader)
    assert len(rows.matrix) == 12
    assert reader.seen == 12
    assert alive.most <= 1.25 * LARGEST


def test_two_embedders_share_the_account(alive):
    given = photos(8)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda half: embedder(alive).images(half), (given[:4], given[4:])))
    assert alive.most <= 1.25 * LARGEST


def test_images_that_fail_give_their_pixels_back(alive):
    data = photos(4)
    rows = embedder(alive).images([data[0][:-40], data[1], b"no image", data[2]], on_error="skip")
    assert sorted(rows.failures) == [0, 2]
    with pytest.raises(ImageError):
        embedder(alive).images([data[3][:-40], *data])


def test_threads_that_load_images_wait_for_each_other(monkeypatch):
    inside, most, lock = 0, 0, threading.Lock()
    upright = decoding._upright_rgb

    def counted(image, name):
        nonlocal inside, most
        with lock:
            inside += image.width * image.height
            most = max(most, inside)
        threading.Event().wait(0.02)
        try:
            return upright(image, name)
        finally:
            with lock:
                inside -= image.width * image.height

    monkeypatch.setattr(decoding, "_upright_rgb", counted)
    forms = [*photos(2), np.zeros((SIDE, SIDE), np.uint8), Image.new("L", (SIDE, SIDE))]
    with ThreadPoolExecutor(4) as pool:
        assert [image.size for image in pool.map(load_image, forms)] == [(SIDE, SIDE)] * 4
    assert most == LARGEST


@pytest.mark.parametrize("size", [10, 2**20 + 10])
def test_a_thread_that_waits_has_no_large_file_in_memory(tmp_path, monkeypatch, size):
    path = tmp_path / "a.png"
    path.write_bytes(photos(1)[0].ljust(size, b"\0"))
    read = []
    whole = EncodedFile.read

    def counted(file):
        read.append(file)
        return whole(file)

    monkeypatch.setattr(EncodedFile, "read", counted)
    monkeypatch.setattr("capscore.images.in_flight.PATIENCE", 0.2)
    others = IN_FLIGHT.take(LARGEST)
    thread = threading.Thread(target=load_image, args=(path,))
    thread.start()
    threading.Event().wait(0.05)
    assert len(read) == (0 if size > 2**20 else 1)
    others.give_back()
    thread.join()
    assert len(read) == 1


def test_an_image_beyond_the_limit_goes_alone_and_a_circle_ends(monkeypatch):
    account = PixelsInFlight()
    first = account.take(3 * LARGEST)
    assert account.try_take(1) is None
    monkeypatch.setattr("capscore.images.in_flight.PATIENCE", 0.01)
    second = account.take(5)
    assert account.taken == 3 * LARGEST + 5
    for ticket in (first, first, second):
        ticket.give_back()
    assert account.taken == 0 and account.most == 3 * LARGEST + 5
    assert first.given_back


def test_the_account_keeps_no_ticket_of_the_past():
    held = []

    class Watched(embedding.deque):
        def append(self, item):
            super().append(item)
            held.append(len(self))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "deque", Watched)
        Embedder(ColourBackbone(), batch_size=2).images(photos(200, 3))
    assert max(held) <= 40
