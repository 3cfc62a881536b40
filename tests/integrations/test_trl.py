"""Metrics as rewards: by the form that TRL documents, and in its GRPO trainer where it is installed.

That rewards are the scores of the library is one of the laws of metrics.
"""

import warnings

import datasets
import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.errors import ImageError, RowWarning
from capscore.integrations.trl import caption_reward
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.judges import write_model

OPTIONS = {"backbone": ColourBackbone(), "cache": False, "language": "en"}


def rewards(reward, completions, **columns):
    """What TRL passes: prompts, completions, their tokens, columns of the data set, and its own objects."""
    more = {"completion_ids": [[1]] * len(completions), "trainer_state": object(), "log_extra": print}
    return reward(prompts=["Describe."] * len(completions), completions=completions, **columns, **more)


def test_strings_and_messages_get_the_score_of_their_caption():
    reward = caption_reward("mcs", **OPTIONS)
    parts = [{"type": "text", "text": "red "}, {"type": "image"}]
    answers = (" red\n", "red blue", parts)
    completions = [answers[0], *([{"role": "assistant", "content": answer}] for answer in answers[1:])]
    assert reward.__name__ == "mcs"
    expected = pytest.approx([2.5, 2.5 / 2**0.5, 2.5], abs=1e-6)
    assert rewards(reward, completions, image=[RED, BLUE, RED]) == expected
    # lists of one photo, in a data set that has a score of that name
    photos = [[Image.fromarray(pixels)] for pixels in (RED, BLUE, RED)]
    assert rewards(reward, completions, images=photos, mcs=[0.0] * 3) == expected
    other = caption_reward("mcs", image_column="photo", **OPTIONS)
    assert rewards(other, completions, photo=photos) == expected


REASONING = {
    "<think>blue, blue?</think>\n\nred": "red", "blue</think> red": "red", "<think>blue": "", "red": "red",
    "<THINKING>blue</THINKING><answer>red</answer>": "red", "[THINK]blue[/THINK]red": "red",
    "<think>a <think> tag, </reflection> or</think> red <think>blue</think>": "red",
    "◁think▷blue◁/think▷red": "red", "<|channel|>analysis<|message|>blue": "",
    "<|begin_of_thought|>blue<|end_of_thought|><|begin_of_solution|>red<|end_of_solution|>": "red",
    "<|channel|>analysis<|message|>blue<|end|><|channel|>final<|message|>red<|return|>": "red",
    "analysisWe see blue.assistantfinalred": "red", "<REASONING>blue</REASONING><CONCLUSION>red": "red",
}  # fmt: skip


def test_reasoning_is_left_out_where_asked_and_warned_of_otherwise():
    columns = {"references": [["red"]] * len(REASONING)}
    stripped = caption_reward("rouge_l", strip_reasoning=True, language="en")
    expected = [float(answer == "red") for answer in REASONING.values()]
    assert rewards(stripped, [*REASONING], **columns) == expected
    as_they_are = caption_reward("rouge_l", language="en")
    with pytest.warns(RowWarning, match=r"[0-9]+ have reasoning .*strip_reasoning=True leaves reasoning out"):
        scored = rewards(as_they_are, [*REASONING], **columns)
    assert min(scored) < scored[3] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once per kind
        assert rewards(as_they_are, [*REASONING], **columns) == scored


def test_a_row_that_cannot_be_scored_stops_training_or_has_no_reward():
    columns = {"image": [RED, "gone.png"]}
    with pytest.raises(ImageError, match=r"row 1 of its batch, counted from 0 \('gone.png': 'red'\)"):
        rewards(caption_reward("mcs", **OPTIONS), ["red", "red"], **columns)
    skipped = rewards(caption_reward("mcs", on_error="skip", **OPTIONS), ["red", "red"], **columns)
    assert skipped == [pytest.approx(2.5), None]
    assert rewards(caption_reward("rouge_l", language="en"), [None, []], references=[["red"]] * 2) == [0, 0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("column", ["image", "images"])
def test_a_vision_language_model_gets_the_scores_of_its_captions(tmp_path, column):
    trl = pytest.importorskip("trl", reason="trl is not installed")
    reward, calls = caption_reward("mcs", **OPTIONS), []

    def mcs(**given):
        calls.append((given, reward(**given)))
        return calls[-1][1]

    photos = [Image.fromarray(pixels).resize((56, 56)) for pixels in (RED, BLUE)]
    rows = {"prompt": [[{"role": "user", "content": "Describe."}]] * 2}
    rows[column] = photos if column == "image" else [[photo] for photo in photos]
    sizes = {"per_device_train_batch_size": 4, "num_generations": 2, "max_steps": 1, "logging_steps": 1}
    quiet = {"use_cpu": True, "bf16": False, "report_to": [], "save_strategy": "no", "disable_tqdm": True}
    arguments = trl.GRPOConfig(output_dir=str(tmp_path), max_completion_length=8, **sizes, **quiet)
    model = str(write_model(tmp_path / "tiny", "smolvlm"))
    trained = trl.GRPOTrainer(model, mcs, arguments, datasets.Dataset.from_dict(rows))
    trained.train()
    ((given, found),) = calls
    captions = [message["content"].strip() for (message,) in given["completions"]]
    images = [cell if column == "image" else cell[0] for cell in given[column]]
    scorer = capscore.load("mcs", backbone=OPTIONS["backbone"], cache=False, empty="skip")
    assert found == pytest.approx(np.nan_to_num(scorer.score(captions, images).scores), abs=1e-6)
    logged = trained.state.log_history[0]["rewards/mcs/mean"]
    assert logged == pytest.approx(sum(found) / 4, abs=1e-6)
