"""Doors to other libraries: Ray Data, torchmetrics, transformers' Trainer, TRL, evaluation harnesses."""
