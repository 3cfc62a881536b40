"""The hostile inputs, a file per kind. Each row: name, input, what is expected; and the fault that is not mended yet."""

from __future__ import annotations

from . import (
    addresses,
    app_inputs,
    benchmark_files,
    captions,
    checkpoints,
    command_lines,
    image_files,
    options,
    photo_files,
    row_files,
    texts,
    training_settings,
)

ALL = [
    *captions.CASES,
    *texts.CASES,
    *row_files.CASES,
    *image_files.CASES,
    *options.CASES,
    *addresses.CASES,
    *app_inputs.CASES,
    *photo_files.CASES,
    *checkpoints.CASES,
    *command_lines.CASES,
    *benchmark_files.CASES,
    *training_settings.CASES,
]
