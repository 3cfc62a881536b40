"""A metric as a function: how many times as long a caption is as its shortest reference."""

from capscore.registry import register_metric


@register_metric("length_ratio", aggregate="mean", higher_is_better=False, score_range=(0, None))
def length_ratio(candidate, references, *, longest=10.0):
    """Words of the candidate over words of its shortest reference.

    Args:
        longest: Highest ratio.
    """
    shortest = min(len(text.split()) for text in references)
    return min(len(candidate.split()) / max(shortest, 1), longest)
