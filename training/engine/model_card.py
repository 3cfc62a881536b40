"""What a recipe knows about its run → the model card, README.md beside the weights.

In: a `ModelCard`. Out: front matter for the Hub and a body for people. A number that is not given appears as
"not measured"; nothing is filled in.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capscore.backbones import find
from capscore.errors import CapscoreError, InputError, Setting
from capscore.files.write import write_text
from capscore.hub.push import CARD
from capscore.metrics.signature import parse_signature
from capscore.text.languages import NAMES, language_code
from training.data.origin import DataSource

_MARKER = re.compile(r"<!-- written by training\.model_card, digest ([0-9a-f]{16}) -->\n")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Result:
    """A number that was measured, or that a reader would look for and that was not measured.

    Attributes:
        data: Data set of the measurement; for a benchmark of capscore, the name of its folder.
        metric: Identifier of the number ("mean_drop", "kendall_tau_c").
        value: The number; None if not measured.
        command: Command that measures it again; required with a value.
        metric_name: Name of the number in the table; "" for `metric`.
        unit: Unit of the value ("%"), "" for none.
        language: Language code, "" for none or several.
        split: Split of the data set.
        rows: Number of rows that were scored; None if not counted.
        base_value: The same number for the base; None if not measured.
        interval: 95 % interval; None without any.
        signature: Signature of the scores, as `Scores.signature` has it.
    """

    data: str
    metric: str
    value: float | None
    command: str = ""
    metric_name: str = ""
    unit: str = ""
    language: str = ""
    split: str = ""
    rows: int | None = None
    base_value: float | None = None
    interval: tuple[float, float] | None = None
    signature: str = ""


@dataclass(frozen=True)
class ModelCard:
    """Content of a card.

    Attributes:
        name: Name of the model ("pr-mcs-embedded").
        recipe: "teacher_learning", "pr_mcs", "noise_gate", "human_ratings", "infometic",
            "mark_calibration" or "eye".
        base: Backbone whose text tower was fine-tuned, encoder that the student started from, backbone
            whose embeddings the network reads, or networks that the eye started from.
        languages: Codes of the training languages.
        license: Licence of the weights, as the Hub writes it ("apache-2.0"); "other" with a name and a link.
        command: Command that trains the weights again.
        settings: Every hyper-parameter by name; mappings may be nested.
        data: Data sets that contributed to the weights.
        held_out: What was held out and why, in a sentence or two.
        results: Numbers that were measured, or that a reader would look for.
        not_measured: Other things that were not measured, one sentence each.
        limitations: Known limitations of these weights, one sentence each.
        teacher: Teacher of a student.
        image_tower: Image tower; "" for the base's own.
        repo_id: "org/name" on the Hub, "" without any.
        compute: Machine and time ("2 CPU cores, 3.5 hours").
        license_name: Id of another licence.
        license_link: Address of that licence.
        tags: Tags besides those of the recipe.
    """

    name: str
    recipe: str
    base: str
    languages: Sequence[str]
    license: str
    command: str
    settings: Mapping[str, object]
    data: Sequence[DataSource]
    held_out: str = ""
    results: Sequence[Result] = ()
    not_measured: Sequence[str] = ()
    limitations: Sequence[str] = ()
    teacher: str = ""
    image_tower: str = ""
    repo_id: str = ""
    compute: str = ""
    license_name: str = ""
    license_link: str = ""
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class _Recipe:
    metric: str  # scorer for the weights
    tags: tuple[str, ...]
    what: str
    limits: tuple[str, ...]
    cited: tuple[str, ...]
    about_base: str  # role of the base
    thing: str = "tower"
    compared: str = "base"  # column of numbers to compare with


_PR_MCS = """@inproceedings{kim-etal-2023-pr-mcs,
  title = {{PR-MCS}: Perturbation Robust Metric for MultiLingual Image Captioning},
  author = {Kim, Yongil and Hwang, Yerin and Yun, Hyeongu and Yoon, Seunghyun and Bui, Trung and
    Jung, Kyomin},
  booktitle = {Findings of the Association for Computational Linguistics: EMNLP 2023}, year = {2023}}"""
_CLIP_SCORE = """@inproceedings{hessel-etal-2021-clipscore,
  title = {{CLIPScore}: A Reference-free Evaluation Metric for Image Captioning},
  author = {Hessel, Jack and Holtzman, Ari and Forbes, Maxwell and Le Bras, Ronan and Choi, Yejin},
  booktitle = {Proceedings of EMNLP}, year = {2021}}"""
_INFOMETIC = """@inproceedings{hu-etal-2023-infometic,
  title = {{InfoMetIC}: An Informative Metric for Reference-free Image Caption Evaluation},
  author = {Hu, Anwen and Chen, Shizhe and Zhang, Liang and Jin, Qin},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics},
  year = {2023}}"""
_ROI_ALIGN = """@inproceedings{he-etal-2017-mask,
  title = {Mask {R-CNN}},
  author = {He, Kaiming and Gkioxari, Georgia and Doll{\'a}r, Piotr and Girshick, Ross},
  booktitle = {Proceedings of ICCV}, year = {2017}}"""
_RATINGS = r"""@inproceedings{gomes-etal-2025-evaluation,
  title = {Evaluation of Multilingual Image Captioning: How far can we get with {CLIP} models?},
  author = {Gomes, Gon{\c{c}}alo and Zerva, Chrysoula and Martins, Bruno},
  booktitle = {Findings of the Association for Computational Linguistics: NAACL 2025}, year = {2025}}"""
_RATINGS_PAPER = "[Gomes et al. 2025](https://arxiv.org/abs/2502.06600)"
_INFOMETIC_PAPER = "[Hu et al. 2023](https://arxiv.org/abs/2305.06002)"
_PAPER = "[Kim et al. 2023](https://aclanthology.org/2023.findings-emnlp.819)"

_RECIPES = {
    "teacher_learning": _Recipe(
        metric="mcs",
        tags=("knowledge-distillation",),
        what="A multilingual text tower for MCS, the multilingual CLIPScore. It was taught to give a "
        "sentence, in each of its languages, the embedding that its teacher gives the English original "
        f"({_PAPER}, §3.1).",
        limits=(
            "A student knows of images only what its teacher's embeddings of English sentences say; it is no "
            "better than its teacher, and no better than the translations that it was taught with.",
            "Like every score of this family it hardly reacts to repeated, missing or shuffled words "
            f"({_PAPER}, §3.3).",
        ),
        cited=(_PR_MCS, _CLIP_SCORE),
        about_base="Started from",
    ),
    "pr_mcs": _Recipe(
        metric="pr_mcs",
        tags=("perturbation-robustness",),
        what="A text tower for PR-MCS, the perturbation-robust multilingual CLIPScore. It was fine-tuned so "
        "that a caption whose words are repeated, removed, masked, shuffled or swapped scores lower than the "
        f"caption as it was ({_PAPER}, §3.4). The image tower was not changed.",
        limits=(
            "It was taught five kinds of damage. That it notices others, such as a wrong number or colour, "
            "or a missing negation, does not follow.",
            "A large drop for damaged captions is not agreement with people: look at both.",
        ),
        cited=(_PR_MCS, _CLIP_SCORE),
        about_base="Fine-tuned from",
    ),
    "noise_gate": _Recipe(
        metric="pr_mcs",
        tags=("perturbation-robustness",),
        what="A gate for PR-MCS, the perturbation-robust multilingual CLIPScore. It stands beside the text "
        "encoder of its base, reads the caption and says how much of the score the caption keeps: all of it "
        "if it is well-formed, less the more of its words are repeated, missing, masked, shuffled or swapped "
        f"({_PAPER}, §3.2). Neither the encoder nor the image tower was changed. The paper has no gate.",
        limits=(
            "It was taught five kinds of damage. That it notices others, such as a wrong number or colour, "
            "or a missing negation, does not follow.",
            "It judges how a caption is written, never whether it is true of the photo: a sentence that "
            "makes sense after its objects are swapped keeps its score.",
            "A large drop for damaged captions is not agreement with people: look at both.",
        ),
        cited=(_PR_MCS, _CLIP_SCORE),
        about_base="Stands beside the text encoder of",
        thing="gate",
    ),
    "human_ratings": _Recipe(
        metric="mcs",
        tags=("human-feedback", "multilingual"),
        what="A backbone for MCS, the multilingual CLIPScore, fine-tuned so that its scores correlate with "
        f"people's ratings of captions ({_RATINGS_PAPER}, §3).",
        limits=(
            "It learned from ratings of one kind of captions by one group of people. What they did "
            "not look for "
            "it did not learn.",
            "Scores of these weights and of the base have different means: compare only scores with one "
            "signature.",
        ),
        cited=(_RATINGS, _CLIP_SCORE),
        about_base="Fine-tuned from",
        thing="backbone",
    ),
    "mark_calibration": _Recipe(
        metric="infometic",
        tags=("explainability", "multilingual"),
        what="A mark calibration for InfoMetIC. From the feature map of a frozen backbone and the embedding "
        "of a word alone it says how likely the word is right, in absolute terms; from all words and the "
        "embedding of the caption, whether the caption fits; it finds boxes of things, and says which of "
        f"them a caption mentions. The paper ({_INFOMETIC_PAPER}) has no such network: its word scores share "
        "a sum of one.",
        limits=(
            "It reads each word alone: in 'the dog chases the cat' it does not see who chases whom.",
            "It hardly knows numbers and colours; where it cannot tell, it says so.",
            "It was trained on everyday photos of people, dogs and outdoor scenes: in medical images, "
            "drawings or documents its probabilities mean little.",
            "A mark says 'likely wrong'. A stated share of right words is marked too.",
        ),
        cited=(_INFOMETIC, _CLIP_SCORE),
        about_base="Reads the embeddings and the feature map of",
        thing="mark calibration",
    ),
    "infometic": _Recipe(
        metric="infometic",
        tags=("explainability",),
        what="A network for InfoMetIC. From the embeddings that a frozen backbone gives of a photo, its "
        "regions, a caption and its pieces it says which words are wrong, which regions are not mentioned, "
        f"and three scores: vision recall, text precision and overall ({_INFOMETIC_PAPER}, §3).",
        limits=(
            "The scores of words sum to 1 over a caption, and so do those of regions: in a caption with many "
            "words each has little, and the threshold β means something else.",
            "Wrong words that it was taught are single words, replaced by others of their class. That it "
            "notices a missing negation, or words that are wrong together, does not follow.",
            "It sees no more than its backbone's embeddings show, and no region that nothing found.",
        ),
        cited=(_INFOMETIC,),
        about_base="Backbone, which was not changed",
        thing="network",
        compared="InfoCLIP",
    ),
    "eye": _Recipe(
        metric="mcs",
        tags=("multilingual", "image-text-retrieval"),
        what="A backbone for captions in many languages: one pass over a photo gives its embedding and those "
        "of its regions, in the space of a frozen sentence encoder. It was trained to place a "
        "photo near its captions and far from those of other photos.",
        limits=(
            "It was trained with thousands of photos, not with hundreds of millions: of what few of them "
            "show, such as places, brands, people by name and writing, it knows next to nothing.",
            "It reads a photo at 256 × 256 pixels; small things are lost.",
            "Most captions that it was trained with are short and plain. Poetry, jokes and long descriptions "
            "are not.",
        ),
        cited=(_CLIP_SCORE, _ROI_ALIGN),
        about_base="Started from",
        thing="backbone",
        compared="embedded-free",
    ),
}


def write_card(folder: str | Path, card: ModelCard, *, force: bool = False) -> Path:
    """Write the card of a tower as README.md into the folder of its weights.

    Args:
        folder: Folder of the weights, created if needed.
        card: Content of the card.
        force: Whether to replace a README.md that was written by hand, or edited.

    Returns:
        The file.

    Raises:
        CapscoreError: the card is incomplete, or there is a README.md that this function did not write or
            that was edited since; it is kept.
        ResultWriteError: the file cannot be written.

    >>> card = ModelCard(
    ...     name="toy", recipe="pr_mcs", base="embedded", languages=["de", "en"], license="apache-2.0",
    ...     command="python -m training.pr_mcs --config toy.yaml", settings={"learning_rate": 5e-5},
    ...     data=[DataSource("Toy captions", "CC0", rows=12)],
    ... )
    >>> write_card("runs/toy", card)                                                # doctest: +SKIP
    >>> "Nothing was measured." in card_text(card)
    True
    """
    path = Path(folder) / CARD
    text = card_text(card)
    if path.exists() and not force and not _ours(path):
        raise CapscoreError(
            f"{path} was not written by training.model_card, or was edited since: it is kept. Move it away, "
            "or pass ",
            Setting("force", True),
        )
    write_text(path, text, "model card")
    return path


def card_text(card: ModelCard) -> str:
    """The text of a card's README.md; errors as in `write_card`."""
    from huggingface_hub import ModelCard as HubCard

    _check(card)
    # Through the Hub's own class, which raises for what the Hub cannot read.
    text = str(HubCard(f"---\n{_front_matter(card)}\n---\n\n{_body(card)}"))
    head, break_after, body = text.partition("\n---\n\n")
    marker = f"<!-- written by training.model_card, digest {_digest(text)} -->\n"
    return f"{head}{break_after}{marker}{body}"


def _ours(path: Path) -> bool:
    """Whether a README.md was written by this module and not edited."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    found = _MARKER.search(text)
    return found is not None and found[1] == _digest(text.replace(found[0], "", 1))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


# --------------------------------------------------------------------------- what a card must hold


def _check(card: ModelCard) -> None:
    if card.recipe not in _RECIPES:
        raise CapscoreError(Setting("recipe", card.recipe), f": expected one of {', '.join(_RECIPES)}")
    for name in ("name", "base", "license", "command"):
        if not str(getattr(card, name)).strip():
            raise CapscoreError(f"a model card needs {name}; it is empty")
    if isinstance(card.languages, str) or not card.languages:
        raise CapscoreError(Setting("languages", card.languages), ": expected a list of language codes")
    if card.license == "other" and not (card.license_name and card.license_link):
        raise CapscoreError("license='other' needs license_name and license_link")
    if not card.settings:
        raise CapscoreError("a model card needs the settings of the training run")
    if not card.data:
        raise CapscoreError("a model card needs the training data")
    if card.repo_id and not _HUB_ID.fullmatch(card.repo_id):
        raise CapscoreError(f"repo_id={card.repo_id!r} is not an id such as 'org/name'")
    for row, source in enumerate(card.data):
        if not source.name or not source.license:
            raise InputError("needs a name and a licence (which may be 'unknown')", row=row, field="data")
    for row, result in enumerate(card.results):
        _check_result(row, result)


def _check_result(row: int, result: Result) -> None:
    if not result.data or not result.metric:
        raise InputError("needs the data set and the metric", row=row, field="results")
    numbers = [result.value, result.base_value, *(result.interval or ())]
    if any(number is not None and not math.isfinite(number) for number in numbers):
        raise InputError(f"{result.metric} on {result.data} is not finite", row=row, field="results")
    if result.value is not None and not result.command:
        raise InputError(
            f"{result.metric} on {result.data} has a value, but no command that measures it",
            row=row,
            field="results",
        )
    if result.signature:
        try:
            parse_signature(result.signature)
        except ValueError as error:
            raise InputError(str(error), row=row, field="results") from None


# --------------------------------------------------------------------------- what the Hub reads


def _front_matter(card: ModelCard) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    recipe = _RECIPES[card.recipe]
    measured = [result for result in card.results if result.value is not None]
    data = ModelCardData(
        language=[language_code(language) for language in card.languages],
        license=card.license,
        license_name=card.license_name or None,
        license_link=card.license_link or None,
        library_name="capscore",
        pipeline_tag="feature-extraction",
        tags=list(
            dict.fromkeys(
                ("image-captioning", "evaluation", card.recipe.replace("_", "-"), *recipe.tags, *card.tags)
            )
        ),
        base_model=_hub_id(card.base),
        # the Hub knows data sets by their ids; others are named in the text
        datasets=[source.hub_id for source in card.data if source.hub_id] or None,
        metrics=list(dict.fromkeys(result.metric for result in measured)) or None,
        model_name=card.repo_id.rpartition("/")[2] or card.name,
        eval_results=[
            EvalResult(
                task_type="image-to-text",
                task_name="Evaluation of image captions",
                dataset_type=result.data,
                dataset_name=result.data,
                dataset_config=result.language or None,
                dataset_split=result.split or None,
                metric_type=result.metric,
                metric_name=result.metric_name or result.metric,
                metric_value=result.value,
                metric_args=_parts(result),
            )
            for result in measured
        ]
        or None,
    )
    if data.eval_results is None:
        del data.model_name  # the Hub allows the name only with results
    return data.to_yaml()


def _parts(result: Result) -> dict[str, object] | None:
    """What a number depends on: the parts of its signature, and the number of rows."""
    parts: dict[str, object] = {}
    if result.signature:
        scorer, settings = parse_signature(result.signature)
        parts = {"scorer": scorer, **settings}
    if result.rows is not None:
        parts["rows"] = result.rows
    return parts or None


def _hub_id(base: str) -> str | None:
    """The Hub id of a base that is on the Hub; None for any other base."""
    from capscore.backbones.loading import repository_of

    plain = base.removeprefix("open_clip:").removeprefix("hf-hub:").partition("@")[0]
    known = find(plain)
    if known is not None:
        return repository_of(known) or None
    return plain if _HUB_ID.fullmatch(plain) else None


# --------------------------------------------------------------------------- what people read


def _body(card: ModelCard) -> str:
    recipe = _RECIPES[card.recipe]
    codes = [language_code(language) for language in card.languages]
    languages = ", ".join(f"{NAMES[code][1]} (`{code}`)" if code in NAMES else f"`{code}`" for code in codes)
    facts = [(recipe.about_base, f"`{_anonymous(card.base)}`")]
    if card.teacher:
        facts.append(("Teacher", f"`{_anonymous(card.teacher)}`"))
    if recipe.thing == "tower":
        tower = f"`{_anonymous(card.image_tower)}`" if card.image_tower else "that of the base"
        facts.append(("Image tower", tower))
    facts += [("Languages", languages), ("Licence", _licence(card))]
    base = find(card.base)
    if base is not None and base.licence:
        facts.append(("Licence of the base", base.licence.lower()))
    sections = [
        f"# {card.name}",
        recipe.what,
        "\n".join(f"- **{name}**: {value}" for name, value in facts),
        "## How to load it",
        _loading(card, recipe),
        "## Training data",
        _table(
            ("data", "licence", "rows", "used for"),
            [(_named(s), s.license, _count(s.rows), s.used_for) for s in card.data],
        ),
        f"Held out: {card.held_out}" if card.held_out else "What was held out was not recorded.",
        "The licence of these weights does not change the licences of the data.",
        "## Training",
        f"```bash\n{_anonymous(card.command)}\n```",
        f"Machine and time: {card.compute or 'not recorded'}.",
        _table(("setting", "value"), [(f"`{key}`", value) for key, value in _flat(card.settings)]),
        "## Results",
        _results(card, recipe),
        "## Not measured",
        _not_measured(card),
        "## Limitations and bias",
        _bullets(
            # each once: weights that were moved bring those of their first card
            list(
                dict.fromkeys(
                    [
                        *card.limitations,
                        *recipe.limits,
                        *(limit.format(thing=recipe.thing) for limit in _COMMON_LIMITS),
                    ]
                )
            )
        ),
        "## Citation",
        "```bibtex\n" + "\n".join(recipe.cited) + "\n```",
    ]
    return "\n\n".join(sections) + "\n"


_COMMON_LIMITS = (
    "There is no score above which a caption is good. Compare captions of the same images under one "
    "signature; scores of two backbones have two scales.",
    "A language that is not listed above gets a score all the same, and a warning. Nothing is known about "
    "it. Of the listed ones, the same caption scores differently in each: compare systems within a language.",
    "The {thing} carries what its base and its training captions carry: stereotypes about people, and an "
    "uneven view of the world. Do not judge people, or systems that describe people, by this score alone.",
)


def _loading(card: ModelCard, recipe: _Recipe) -> str:
    where = card.repo_id or "path/to/this/folder"
    if recipe.thing != "network":
        argument = f'backbone="{where}"'
    else:
        argument = f'backbone="{_anonymous(card.base)}", weights="{where}"'
    note = "" if card.repo_id else "  # or the id of this page"
    code = f"""import capscore

scorer = capscore.load("{recipe.metric}", {argument}){note}
result = scorer.score(["…"], ["photo.jpg"], language="{language_code(card.languages[0])}")
print(result.mean, result.signature)"""
    module = f"""import capscore, evaluate

metric = evaluate.load(capscore.module_folder("{recipe.metric}"), {argument})
metric.compute(predictions=["…"], images=["photo.jpg"], language="{language_code(card.languages[0])}")"""
    return (
        f"With the library, `pip install capscore`:\n\n```python\n{code}\n```\n\n"
        f"As an `evaluate` module:\n\n```python\n{module}\n```\n\n"
        "`@` and a commit after the id fix the weights; the signature names them. Weights are safetensors, "
        "and no code comes with them."
    )


def _results(card: ModelCard, recipe: _Recipe) -> str:
    if all(result.value is None for result in card.results):
        return "Nothing was measured."
    rows = []
    for result in card.results:
        name = result.metric_name or result.metric
        rows.append(
            (
                f"`{result.data}`" + (f", {result.split}" if result.split else ""),
                result.language or "–",
                f"{name}, {result.unit}" if result.unit else name,
                _number(result.value)
                + (
                    f" [{_number(result.interval[0])}, {_number(result.interval[1])}]"
                    if result.interval
                    else ""
                ),
                _number(result.base_value),
                _count(result.rows),
            )
        )
    table = _table(("data", "language", "measure", f"this {recipe.thing}", recipe.compared, "rows"), rows)
    parts = [table]
    if any(result.interval for result in card.results):
        parts.append("In brackets: 95 % intervals.")
    commands = list(dict.fromkeys(_anonymous(result.command) for result in card.results if result.command))
    parts.append("Measured with:\n\n```bash\n" + "\n".join(commands) + "\n```")
    signatures = list(dict.fromkeys(result.signature for result in card.results if result.signature))
    if signatures:
        parts.append("Signatures of the scores:\n\n```text\n" + "\n".join(signatures) + "\n```")
    return "\n\n".join(parts)


def _not_measured(card: ModelCard) -> str:
    missing = [
        f"{result.metric_name or result.metric} on `{result.data}`"
        + (f" in {result.language}" if result.language else "")
        for result in card.results
        if result.value is None
    ]
    return _bullets([*missing, *card.not_measured, "Whatever is not in the table above."])


def _licence(card: ModelCard) -> str:
    return f"[{card.license_name}]({card.license_link})" if card.license == "other" else card.license


def _named(source: DataSource) -> str:
    url = source.url or (f"https://huggingface.co/datasets/{source.hub_id}" if source.hub_id else "")
    return f"[{source.name}]({url})" if url else source.name


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"


def _count(rows: int | None) -> str:
    return "not counted" if rows is None else f"{rows:,}"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table whose cells are single lines."""
    cells = [[" ".join(str(cell).split()).replace("|", r"\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [[*head], ["---"] * len(head), *cells])


def _flat(settings: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", _shown(value)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return ", ".join(map(_shown, items)) or "none"
    return _anonymous(str(value)) or "empty"


def _anonymous(text: str) -> str:
    """The text with local paths shortened to their last part, which would reveal the machine.

    >>> _anonymous("python -m training.pr_mcs --config /home/jo/own.yaml out=~/runs/7 https://a.org/b")
    'python -m training.pr_mcs --config …/own.yaml out=…/7 https://a.org/b'
    """
    return re.sub(
        r"""(?<![^\s='",:])(~|[A-Za-z]:)?[/\\](?:[^\s/\\'",]+[/\\])*([^\s/\\'",]+)""", r"…/\2", text
    )
