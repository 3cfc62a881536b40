"""Images and texts → embeddings: each distinct item once, kept on disk."""
