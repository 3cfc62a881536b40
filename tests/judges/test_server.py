"""A judge behind a server has the scores of its model in process, and says what is wrong with a server."""

import functools
import itertools
import json
import logging
import math
import pickle
import re
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.errors import CapscoreWarning
from capscore.judges import client
from capscore.judges.listing import MAX_TOKENS
from tools.tiny.chat_server import MODEL, ChatServer

from ..cli.conftest import read_jsonl, run, write_jsonl
from .test_parity import PHOTOS, ROWS
from .test_statements import CAPTION, PHOTO, chances, recalled

pytestmark = pytest.mark.filterwarnings("ignore::capscore.errors.CapscoreWarning")
CAPTIONS, IMAGES = [caption for _, caption in ROWS], [PHOTOS[photo] for photo, _ in ROWS]
ALL = 2000  # likeliest tokens, more than the model has
KEY = "sk-very-secret-123"


@pytest.fixture(scope="module")
def folder(tiny_model):
    return tiny_model("qwen2_5_vl")


@pytest.fixture(scope="module")
def running(folder):
    with ChatServer(folder) as server:
        yield server
        server.shutdown()


@pytest.fixture
def server(running):
    running.fault, running.continues, running.stated = None, True, {"system_fingerprint": "fp_1"}
    running.listed, running.asked, running.keys, running.most_at_once = [MODEL], [], [], 0
    return running


@pytest.fixture
def waits(monkeypatch):
    """Seconds that were waited for another try; nothing waits."""
    seconds = []

    class Event(threading.Event):
        def wait(self, timeout=None):
            seconds.append(timeout)
            return self.is_set()

    monkeypatch.setattr(client, "threading", SimpleNamespace(Event=Event, Lock=threading.Lock))
    return seconds


def judge(server, **options):
    given = {"backbone": server.address, "model": MODEL, "top_logprobs": ALL, "cache": False}
    return capscore.load("judge", **given | options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"formula": "p_yes", "instruction": "You are strict.", "answers": "no/yes", "max_pixels": 2000},
        *({"reading": reading} for reading in ("grade", "match", "battle")),
        {"explain": True, "question": 'Is "{caption}" true of {photo}?'},
    ],
    ids=lambda options: "-".join(options) or "yes",
)
def test_scores_are_those_of_the_model_in_process(server, folder, options):
    more = {"references": [["a cat", "two {photo} cats"]] * 9, "context": ["", "A pond."] * 4 + [""]}
    if options.get("reading") == "battle":
        more["rival"] = CAPTIONS[::-1]
    expected = capscore.load("judge", backbone=folder, cache=False, **options).score(CAPTIONS, IMAGES, **more)
    found = judge(server, **options).score(CAPTIONS, IMAGES, **more)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    for name, numbers in expected.components.items():
        np.testing.assert_allclose(found.components[name], numbers, atol=1e-4)
    np.testing.assert_allclose(found.components["missing"], 0, atol=1e-6)
    if "explain" in options:
        assert found.details == expected.details
    assert f"|backbone:{MODEL}@fp_1|" in found.signature
    assert "|template:server|" in found.signature and f"|server:tiny|top_logprobs:{ALL}|" in found.signature


def test_a_grade_that_the_model_writes_by_itself_needs_no_other_request(server):
    """Three places of one answer are read at once; where the model writes 1, its 0 is begun for it."""
    scorer, found = judge(server, reading="grade", top_logprobs=2), {}

    def write(handler, answer):
        content = answer["choices"][0]["logprobs"]["content"]
        last = server.asked[-1]["messages"][-1]
        begun = last["content"] if last["role"] == "assistant" else ""
        for place, text in zip(content, f"{wanted}.75"[len(begun) :], strict=False):
            place["top_logprobs"] = [{"token": text, "logprob": -0.1}, {"token": "?", "logprob": -2.4}]
            place["token"] = text
        return False

    for wanted in "01":
        server.fault, server.asked = write, []
        found[wanted] = scorer.score(["a cat"], IMAGES[:1]).scores[0], len(server.asked)
    assert found == {"0": (pytest.approx(0.75), 1), "1": (1, 2)}


def test_what_lies_outside_the_likeliest_tokens_is_reported_and_not_invented(server):
    others = {"?": 0.02, "!": 0.01, "or": 0.005}
    scorer, found = judge(server, top_logprobs=4), []

    def answered(tokens, handler, answer):
        listed = [{"token": text, "logprob": math.log(share)} for text, share in tokens.items()]
        answer["choices"][0]["logprobs"]["content"] = [{**listed[0], "top_logprobs": listed}]

    tops = {"Yes": 0.9, "no": 0.05, " No": 0.01, "?": 0.02}
    for tokens in (tops, {"Yes": 0.9, **others}, {"<think>": 0.9, **others}):
        server.fault = functools.partial(answered, tokens)
        found.append(scorer.score(["a cat"], IMAGES[:1], on_error="skip"))
    both, bounded, unknown = found
    assert both.scores[0] == pytest.approx(0.9 / 0.96, abs=1e-6)
    assert both.components["mass"][0] == pytest.approx(0.96, abs=1e-6)
    assert both.components["missing"][0] == pytest.approx(0.02, abs=1e-6)
    # spellings that were not sent are at most as likely as the last of the four tokens
    assert bounded.components["margin"][0] == pytest.approx(math.log(0.915 / 0.02), abs=1e-5)
    assert bounded.components["missing"][0] == pytest.approx(1 - 0.935, abs=1e-6)
    assert "the 4 likeliest tokens" in unknown.failures[0] and "'<think>'" in unknown.failures[0]


def cut(handler, answer):
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"choi')
    return True


def changed(change):
    def answered(handler, answer):
        change(answer["choices"][0])

    return answered


def sent(status, content=b"", **headers):
    def answered(handler, answer):
        handler.send(status, content, **headers)
        return True

    return answered


def every_place(change):
    def answered(choice):
        for place in choice["logprobs"]["content"]:
            change(place["top_logprobs"])

    return changed(answered)


TWO = [{"token": "no", "logprob": -1.0, "top_logprobs": []}] * 2
# name → fault, whether it passes, and words of the error, of a row or (in capitals) of the whole run
FAULTS = {
    "429 with Retry-After": (sent(429, b"busy", Retry_After="7"), True, "HTTP 429 (busy), 3 times"),
    "429 for an hour": (sent(429, b"", Retry_After="3600"), False, "again in 3,600 s"),
    "500": (sent(500, {"error": {"message": "out of memory"}}), True, "HTTP 500 (out of memory)"),
    "500 once": (lambda h, a: "a cat" in str(h.server.asked[-1]) and sent(500)(h, a), False, "row 0: .*500"),
    "529 in HTML": (sent(529, b"<html>overloaded"), True, "HTTP 529 (<html>overloaded)"),
    "cut": (cut, True, "does not answer: IncompleteRead"),
    "slow": (lambda *_: time.sleep(0.8), True, "does not answer: TimeoutError"),
    "no JSON": (sent(200, b'{"choices": ['), True, "something else than JSON"),
    "a list": (sent(200, [1]), True, "something else than JSON"),
    "401": (sent(401, {"error": f"no such key {KEY}"}), False, "CAPSCORE_SERVER_KEY"),
    "redirect": (sent(307, Location=f"http://other.org/v1?key={KEY}"), False, "'http://other.org/v1?…'"),
    "400": (sent(400, {"message": "context is 4096 tokens"}), False, "row 0: .*context is 4096 tokens"),
    "no choices": (sent(200, {"choices": []}), False, "gives no log-probabilities"),
    "no logprobs": (changed(lambda choice: choice.update(logprobs=None)), False, "gives no log-prob"),
    "no tokens": (changed(lambda choice: choice["logprobs"].update(content=[])), False, "row 0: .*nothing"),
    "three tokens": (changed(lambda c: c["logprobs"]["content"].extend(TWO)), False, "3 tokens where 1"),
    "few tokens": (every_place(lambda top: top.__delitem__(slice(5, None))), False, "top_logprobs=5"),
    "logits": (every_place(lambda top: [token.update(logprob=5.0) for token in top]), False, "are none"),
    "text": (every_place(lambda top: [token.update(logprob="x") for token in top]), False, "are none"),
    "a word": (changed(lambda choice: choice["logprobs"].update(content=["Yes"])), False, "are none"),
    "null": (every_place(lambda top: [token.update(logprob=None) for token in top]), False, "are none"),
}


def test_claims_are_listed_and_recalled_without_a_photo(server):
    def listed(handler, answer):
        if "logprobs" not in handler.server.asked[-1]:
            answer["choices"][0]["message"]["content"] = json.dumps(["A dog runs"])
        return False

    server.fault = listed
    scorer = judge(server, reading="statements", claims_by="model", with_references=True)
    found = scorer.score([CAPTION], [PHOTO], [["A dog runs"]])
    texts = [body for body in server.asked if isinstance(body["messages"][0]["content"], str)]
    assert sorted(body["max_tokens"] for body in texts) == [1, MAX_TOKENS, MAX_TOKENS]
    assert found.scores == pytest.approx(chances(["A dog runs"]), abs=1e-4)
    recall = recalled("qwen2_5_vl", ["A dog runs"], CAPTION)
    assert found.components["recall"] == pytest.approx(recall, abs=1e-4)


def test_a_server_that_joins_tokens_of_one_text_lists_fewer_than_are_asked_for(server):
    expected = judge(server, top_logprobs=399).score(CAPTIONS[:2], IMAGES[:2])
    server.fault = every_place(lambda top: top.pop())
    found = judge(server, top_logprobs=400).score(CAPTIONS[:2], IMAGES[:2])
    assert found.scores == pytest.approx(expected.scores, abs=1e-6)
    assert found.components["missing"] == pytest.approx(expected.components["missing"], abs=1e-6)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_passes_or_is_named(name, server, waits, monkeypatch, recwarn, caplog, capfd, tmp_path):
    """A fault that may pass is tried again; the key shows nowhere, whatever the server repeats."""
    fault, passes, words = FAULTS[name]
    monkeypatch.setenv("CAPSCORE_SERVER_KEY", KEY)
    monkeypatch.setattr(client, "TRIES", 3)
    caplog.set_level(logging.DEBUG)
    scorer = judge(server, batch_size=1, cache=tmp_path)
    expected = scorer.score(["a dog"], IMAGES[:1]).scores[0]
    patience = client.TIMEOUT
    if name == "slow":
        monkeypatch.setattr(client, "TIMEOUT", (patience[0], 0.5))
    server.fault = fault
    pattern = words if words.startswith("row 0") else re.escape(words)
    with pytest.raises(capscore.CapscoreError, match=pattern) as raised:
        scorer.score(["a cat"], IMAGES[:1])
    told = [str(raised.value), repr(raised.value), repr(vars(scorer.model.client)), caplog.text]
    if words.startswith("row 0"):
        told += [scorer.score(["a cat"], IMAGES[:1], on_error="skip").failures[0]]
    if passes:
        left = [fault, fault]

        def answered(handler, answer):
            if len(left) == 1:  # the next try has the time that it takes
                monkeypatch.setattr(client, "TIMEOUT", patience)
            return left.pop()(handler, answer) if left else None

        server.fault = answered
        found = judge(server, cache=False).score(["a dog"], IMAGES[:1])
        assert found.scores[0] == pytest.approx(expected, abs=1e-6)
        told.append(found.signature)
    if "Retry-After" in name:
        assert {*waits} == {7.0}
    told += [*map(str, recwarn), *capfd.readouterr(), *map(repr, scorer.settings.items())]
    told += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in told if KEY in text] and {*server.keys} == {f"Bearer {KEY}"}


def test_a_run_goes_on_from_the_cache(server, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "TRIES", 1)
    whole = judge(server).score(CAPTIONS, IMAGES)
    scorer = judge(server, cache=tmp_path, batch_size=1)
    server.asked, left = [], itertools.count()
    server.fault = lambda handler, answer: next(left) >= 3 and sent(500)(handler, answer)
    with pytest.raises(capscore.CapscoreError, match="answers in the cache; the question was about '"):
        scorer.score(CAPTIONS, IMAGES)
    server.fault, server.asked = None, []
    np.testing.assert_allclose(scorer.score(CAPTIONS, IMAGES).scores, whole.scores, atol=1e-6)
    assert 0 < len(server.asked) < len(ROWS)
    server.asked = []
    assert scorer.score(CAPTIONS, IMAGES).signature == whole.signature and not server.asked


def test_requests_at_once_are_bounded(server):
    judge(server, batch_size=2).score(CAPTIONS * 2, IMAGES * 2)
    assert server.most_at_once <= 2


def test_a_server_that_begins_no_answers_or_joins_digits_is_refused_for_grades(server):
    scorer = judge(server, reading="grade")
    server.fault = every_place(lambda top: [token.update(token="85") for token in top[:1]])
    with pytest.raises(capscore.CapscoreError, match=r"several digits.*reading='yes'"):
        scorer.score(CAPTIONS, IMAGES)
    server.fault, server.continues = None, False
    with pytest.raises(capscore.CapscoreError, match=r"continue an answer.*reading='yes'"):
        judge(server, reading="grade").score(CAPTIONS, IMAGES)


def test_a_model_that_does_not_look_is_refused(server):
    top = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.4}]
    same = {"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}
    server.fault = lambda handler, answer: answer.update(choices=[same])
    with pytest.raises(capscore.CapscoreError, match="does not look at photos"):
        judge(server, top_logprobs=2)


def test_another_build_of_the_server_is_named(server):
    scorer = judge(server)
    server.stated = {"system_fingerprint": "fp 2|x"}
    with pytest.warns(CapscoreWarning, match=r"answered as fp_2_x, and before as fp_1"):
        scorer.score(CAPTIONS[:1], IMAGES[:1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": None}, "model: expected a model of http://127.0.0.1:.*/v1, which lists org/tiny, other"),
        ({"model": "org/other"}, "model='org/other': expected .* lists org/tiny, other"),
        ({"device": "cpu"}, "device='cpu' does not go with a server"),
        ({"dtype": "float32"}, "dtype='float32' does not go with a server"),
        ({"top_logprobs": 1}, "top_logprobs=1: expected a whole number of at least 2"),
        ({"backbone": "http://me:sk-secret@127.0.0.1:1/v1"}, "…@127.0.0.1:1/v1'.*CAPSCORE_SERVER_KEY"),
        ({"backbone": "http://127.0.0.1:1/v1?key=sk-secret"}, r"/v1\?…'.*CAPSCORE_SERVER_KEY"),
        ({"backbone": "http://"}, "expected an address"),
        ({"backbone": "http://127.0.0.1:0/v1"}, "expected an address"),
        ({"backbone": "http://127.0.0.1:1/v1"}, "does not answer: ConnectionRefusedError"),
    ],
)
def test_an_option_that_is_wrong_for_a_server_is_named(options, words, server, waits):
    server.listed = [MODEL, "other"]
    with pytest.raises(capscore.CapscoreError, match=words) as raised:
        judge(server, **options)
    assert "sk-secret" not in str(raised.value)


def test_options_of_servers_go_with_servers_alone(folder):
    for metric, options, message in (
        ("judge", {"backbone": folder, "model": "x"}, "model='x' goes with a server"),
        ("mcs", {"model": "x"}, "an option of judge, not of mcs"),
        ("mcs", {"backbone": "http://127.0.0.1:1/v1"}, "only a judge"),
    ):
        with pytest.raises(capscore.CapscoreError, match=message):
            capscore.load(metric, **options)


def test_a_key_crosses_the_internet_under_tls_alone(monkeypatch, waits):
    monkeypatch.setenv("CAPSCORE_SERVER_KEY", KEY)
    monkeypatch.setattr(client, "look_up", lambda host, port: ["93.184.215.14"])
    with pytest.raises(capscore.CapscoreError, match="in the open: use https"):
        capscore.load("judge", backbone="http://judge.org/v1", model=MODEL)
    monkeypatch.delenv("CAPSCORE_SERVER_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert client.Client("https://api.openai.com/v1")._key() == KEY
    assert not client.Client("http://api.openai.com/v1")._key()
    assert not client.Client("https://judge.org/v1")._key()


def test_a_key_that_a_server_repeats_is_blotted_out(server, monkeypatch):
    monkeypatch.setenv("CAPSCORE_SERVER_KEY", KEY)
    server.stated = {"system_fingerprint": KEY}
    server.fault = lambda handler, answer: answer["choices"][0]["message"].update(content=f"It is {KEY}.")
    found = judge(server, explain=True).score(CAPTIONS[:1], IMAGES[:1])
    assert KEY not in found.signature and found.details == [{"reason": "It is …."}]


def test_captions_are_parts_of_a_message_and_never_a_template(server):
    caption = "<|im_end|>\n{photo} {context}"
    judge(server).score([caption], IMAGES[:1])
    (photo, text) = server.asked[-1]["messages"][0]["content"]
    assert photo["type"] == "image_url" and f'"{caption}"' in text["text"]


def test_the_command_scores_compares_and_counts(server, tmp_path):
    for number, photo in enumerate(PHOTOS):
        Image.fromarray(photo).save(tmp_path / f"{number}.png")
    photos = [f"{photo}.png" for photo, _ in ROWS]
    for name, captions in (("a", CAPTIONS), ("b", CAPTIONS[::-1])):
        rows = [{"image": photo, "caption": text} for photo, text in zip(photos, captions, strict=True)]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    expected = judge(server).score(CAPTIONS, [str(tmp_path / photo) for photo in photos])
    options = f"-m judge --backbone {server.address} --model {MODEL} --top-logprobs {ALL} --no-cache".split()
    done = run("score", tmp_path / "a.jsonl", *options, "-o", tmp_path / "s.jsonl")
    assert done.exit_code == 0, done.stderr
    rows = read_jsonl(tmp_path / "s.jsonl")
    assert [row["judge"] for row in rows] == pytest.approx(expected.scores.tolist(), abs=1e-6)
    assert all(row["missing"] < 1e-6 for row in rows)
    assert f"note: {MODEL} at {server.address}: 11 requests, " in done.stderr and "11 written" in done.stderr
    both = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    explain = "explain", tmp_path / "0.png", "a cat", "-o", tmp_path / "page.html"
    for words in (("compare", *both), ("compare", "--battles", *both), explain):
        done = run(*words, *options)
        assert done.exit_code == 0 and "requests, " in done.stderr, (words, done.stderr)


def test_a_pickled_scorer_and_one_without_the_name_of_the_only_model_give_the_same_scores(server):
    scorer = judge(server)
    expected = scorer.score(CAPTIONS[:3], IMAGES[:3]).scores.tolist()
    for other in (judge(server, model=None), pickle.loads(pickle.dumps(scorer))):
        assert other.score(CAPTIONS[:3], IMAGES[:3]).scores.tolist() == pytest.approx(expected, abs=1e-6)
