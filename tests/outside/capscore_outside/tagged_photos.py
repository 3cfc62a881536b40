"""A layout of files: JSON with the photos of an album and their tags."""

from capscore.registry import register_layout


@register_layout("tagged photos", '{"album": [{"file": "a.jpg", "tag": "a dog"}]}')
def tagged_photos(document, notes):
    """One row per photo; None of a document in another layout."""
    if "album" not in document:
        return None
    return [{"image": photo["file"], "caption": photo["tag"]} for photo in document["album"]]
