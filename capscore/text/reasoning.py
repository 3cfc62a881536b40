"""Answers of models that reason before they answer → the answer alone."""

from __future__ import annotations

import re

# names of the blocks that reasoning stands in, as a pattern
THOUGHT = "(?i:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad|cot|seed:think)"
# How reasoning begins and ends; the name of a block is the same at both.
_MARK = re.compile(
    rf"<(?P<close>/?)(?P<name>{THOUGHT})\b[^<>]*>"
    rf"|[◁\[](?P<close2>/?)(?P<name2>{THOUGHT})[▷\]]"
    r"|<\|(?P<name3>(?:begin|(?P<close3>end))_of_thought)\|>"
    r"|<\|(?P<name4>channel)\|>\s*(?:analysis|commentary|(?P<close4>final\s*<\|message\|>))"
    r"|(?P<name5>\A\s*(?:assistant)?analysis(?=[A-Z])|(?P<close5>assistantfinal))"
)
_ANSWER = re.compile(
    r"(?is)<(?P<name>answer|final_answer|conclusion|solution)>(.*?)(?:</(?P=name)>|\Z)"
    r"|<\|begin_of_solution\|>(.*?)(?:<\|end_of_solution\|>|\Z)"
)


def without_reasoning(text: str) -> str:
    """The answer of a model without its reasoning, and without the tags around it.

    Reasoning stands in a block, such as `<think>…</think>`. A block that is not closed goes to the end of the
    text, as where a model was cut off; one that is closed alone was begun by the prompt, and goes from the
    beginning. Where an answer has tags, such as `<answer>`, it is the last text between them.

    >>> without_reasoning("<think>Two dogs?</think> A dog."), without_reasoning("a cat</think><answer>A dog")
    ('A dog.', 'A dog')
    >>> without_reasoning("<think>Two"), without_reasoning("A dog.")
    ('', 'A dog.')
    """
    kept: list[str] = []
    place, inside = 0, ""
    for mark in _MARK.finditer(text):
        kind, is_end = _kind(mark)
        if inside:
            if is_end and kind == inside:
                inside, place = "", mark.end()
        elif is_end:
            kept, place = [], mark.end()
        else:
            kept.append(text[place : mark.start()])
            inside = kind
    if not inside:
        kept.append(text[place:])
    answer = "".join(kept)
    tagged = [first or second for _, first, second in _ANSWER.findall(answer)]
    if tagged:
        answer = tagged[-1]
    return answer.removesuffix("<|return|>").strip()


def _kind(mark: re.Match[str]) -> tuple[str, bool]:
    """The name that both ends of a block share, and whether a mark is the end."""
    groups = mark.groupdict()
    is_end = any(groups[name] for name in groups if name.startswith("close"))
    for number in ("4", "5", "3"):
        if groups[f"name{number}"]:
            return number, is_end
    return (groups["name"] or groups["name2"]).lower(), is_end
