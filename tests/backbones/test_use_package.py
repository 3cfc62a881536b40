"""The text encoder's package: read ahead by a thread, or when it is needed, with the same result."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest

from capscore import load_backbone
from capscore.backbones import embedded
from capscore.backbones.embedded import package_files, read_package, reading_ahead
from capscore.errors import BackboneUnavailable


@pytest.fixture
def readings(monkeypatch):
    """Names of the threads that read the package, which is a tiny one here."""
    threads = []

    def read():
        threads.append(threading.current_thread().name)
        arrays = embedded.NetworkArrays({"table": np.zeros((17, 4), np.uint8)}, 1e-12)
        return embedded.TextEncoderFiles(arrays, object())

    monkeypatch.setattr(embedded, "_read", read)
    return threads


def test_outside_a_block_the_caller_reads(readings):
    read_package()
    assert readings == [threading.current_thread().name]


def test_a_block_reads_ahead_once(readings):
    with reading_ahead(), reading_ahead():
        read_package()
    assert len(readings) == 1 and readings[0].startswith("capscore-reading")


def test_two_networks_do_not_share_weights(readings):
    with reading_ahead():
        first, second = read_package(), read_package()
    assert not np.shares_memory(first.arrays.state["table"], second.arrays.state["table"])
    assert readings[1] == threading.current_thread().name, "the second is read when it is asked for"


def test_what_nobody_took_is_gone_after_the_block(readings):
    with reading_ahead():
        pass
    read_package()
    assert readings[-1] == threading.current_thread().name


def test_another_thread_reads_for_itself(readings):
    with reading_ahead():
        other = threading.Thread(target=read_package, name="other")
        other.start()
        other.join()
        assert "other" in readings
        read_package()
    assert threading.current_thread().name not in readings


def test_damage_is_an_error_of_whoever_needs_the_package(monkeypatch):
    monkeypatch.setitem(embedded.SHA256, "sp.model", "0" * 64)
    with reading_ahead():  # reading ahead itself fails nobody
        with pytest.raises(BackboneUnavailable, match=r"sp\.model.*SHA-256.*force-reinstall"):
            read_package()
    with pytest.raises(BackboneUnavailable, match=r"'embedded-uncentred' is not available: sp\.model"):
        load_backbone("embedded-uncentred", device="cpu")


def test_the_arrays_are_those_of_the_file():
    content = package_files()["weights.npz"]
    arrays = embedded.network_arrays(content)
    with np.load(io.BytesIO(content)) as stored:
        for row in (0, 16, 17, 5 * 17 + 3):
            np.testing.assert_array_equal(arrays.state["table"][row], stored[f"q{row % 17 + 1}"][row // 17])
        np.testing.assert_array_equal(arrays.state["project.weight"][256:512], stored["proj3"].T)
        np.testing.assert_array_equal(arrays.state["second.2.weight"], stored["w2_5"].T)
        assert arrays.eps == float(stored["eps"])
    assert all(own.flags.c_contiguous and own.flags.writeable for own in arrays.state.values())
