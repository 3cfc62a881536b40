"""Captions as words, in any language: language codes, words, word classes."""
