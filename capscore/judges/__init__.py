"""Vision–language models as judges of captions: what they are asked, and how answers are read."""
