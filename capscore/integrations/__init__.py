"""Doors to other libraries: Ray Data, torchmetrics, transformers' Trainer, evaluation harnesses."""
