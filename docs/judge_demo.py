"""Builds a tiny vision–language model, and lets one command score the demo's photos with it as the judge.

The model was never trained: its numbers and reasons mean nothing. The way to them is that of a real model,
whose name or folder takes the place of the tiny one. Needs no network: `make demo-judge`.
"""

import json
import runpy
import shlex
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

MODEL = Path("build/judge/tiny-untrained")
PHOTOS = MODEL.with_name("Untrained judge, its numbers mean nothing")  # also the heading of the page
TEMPLATE = (
    "{% for message in messages %}{% for part in message.content %}{% if part.type == 'image' %}<image>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endfor %} ANSWER:"
)


def write_model(folder: Path, text: str) -> None:
    """Write a LLaVA of two layers with random weights, which knows the words of a text."""
    words = Tokenizer(models.WordLevel(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    trainer = trainers.WordLevelTrainer(special_tokens=[*special.values(), "<image>"], show_progress=False)
    words.train_from_iterator([text, "Yes yes No no"], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special)
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": 42}, crop_size={"height": 42, "width": 42}
    )
    how = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    processor = transformers.LlavaProcessor(images, tokenizer, chat_template=TEMPLATE, **how)
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = {"model_type": "clip_vision_model", "image_size": 42, "patch_size": 14, **layers}
    text_config = {"model_type": "llama", "vocab_size": len(tokenizer), **layers}
    image = {"image_token_index": tokenizer.convert_tokens_to_ids("<image>"), "image_seq_length": 9}
    torch.manual_seed(0)
    model = transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(text_config=text_config, vision_config=vision, **image)
    )
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    # so that reasons are short
    model.generation_config.update(eos_token_id=[*range(4, len(tokenizer), 20)], no_repeat_ngram_size=1)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def main() -> None:
    """Write model and photos, and run the command."""
    transformers.utils.logging.disable_progress_bar()
    photos = json.loads(files("capscore.show").joinpath("examples.json").read_text("utf-8")).values()
    shutil.rmtree(PHOTOS, ignore_errors=True)
    PHOTOS.mkdir(parents=True)
    for photo in photos:
        copy = Path(shutil.copy(str(files("skimage.data") / photo["file"]), PHOTOS))
        copy.with_suffix(".txt").write_text(photo["captions"]["en"]["right"], "utf-8")
    write_model(MODEL, " ".join(text for photo in photos for text in photo["captions"]["en"]["references"]))
    command = ["score", str(PHOTOS), "-m", "judge", "--backbone", str(MODEL), "--explain", "--language", "en"]
    command += ["--report", "judge.html", "--force", "--no-cache"]
    print("A tiny untrained model judges: numbers and reasons mean nothing, the way to them is the real one.")
    print(f"$ capscore {shlex.join(command)}", flush=True)
    sys.argv = ["capscore", *command]
    runpy.run_module("capscore", run_name="__main__")


if __name__ == "__main__":
    main()
