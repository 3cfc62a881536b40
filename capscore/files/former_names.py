"""Modules by their former names: `import capscore.agreement` gives `capscore.statistics.agreement`.

Up to version 0.1 all modules lay side by side. What imports them by those names goes on working, without a
warning until the end of 2027, and gets the very module that has the new name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# former name → present name, both below `capscore.`; what lies inside a package moves with it
FORMER_NAMES = {
    "agreement": "statistics.agreement",
    "annotation_files": "benchmark.data.annotation_files",
    "annotation_folder": "benchmark.data.annotation_folder",
    "backbones.embedded": "backbones.learned",
    "benchmark.figure": "show.benchmark_figure",
    "benchmark.heatmap": "show.language_heatmap",
    "benchmark.present": "show.benchmark_table",
    "benchmark_builder": "benchmark.data.builder",
    "bleu": "scorers.formulas.bleu",
    "bootstrap": "statistics.bootstrap",
    "cache": "embedding.cache",
    "caption_files": "benchmark.data.reference_files",
    "cider": "scorers.formulas.cider",
    "coco_files": "benchmark.data.coco_format",
    "columns": "images.sequence",
    "correlation": "statistics.correlation",
    "data_check": "benchmark.data.check",
    "data_export": "benchmark.data.export",
    "data_sets": "benchmark.data.load",
    "demo_app": "show.demo_app",
    "evaluate_module": "scorers.evaluate_module",
    "explain_app": "show.explain_app",
    "infometic.boxes": "images.boxes",
    "infometic.drawing": "show.explain_picture",
    "infometic.explain_page": "show.explain_page",
    "infometic.explained": "show.explained",
    "infometic.fonts": "show.fonts",
    "java_metrics": "scorers.formulas.java_programs",
    "languages": "text.languages",
    "ngrams": "scorers.formulas.ngrams",
    "perturbation_app": "show.perturbation_app",
    "perturbed_rows": "perturbations.perturbed_file",
    "progress": "files.progress",
    "protocols": "benchmark.protocols",
    "protocols.captokeneval": "benchmark.protocols.captokeneval_accuracy",
    "protocols.cross_language": "benchmark.protocols.cross_language_correlation",
    "protocols.foils": "benchmark.protocols.foil_accuracy",
    "protocols.marvl": "benchmark.protocols.marvl_accuracy",
    "protocols.pairwise": "benchmark.protocols.pairwise_accuracy",
    "protocols.rating_correlation": "benchmark.protocols.ratings",
    "protocols.retrieval": "benchmark.protocols.retrieval_recall",
    "protocols.robustness": "benchmark.protocols.relative_drop",
    "protocols.thumb": "benchmark.protocols.thumb_correlation",
    "protocols.xvnli": "benchmark.protocols.xvnli_accuracy",
    "ptb": "text.ptb",
    "published": "benchmark.published",
    "rated_captions": "benchmark.data.polaris_format",
    "rated_rows": "statistics.ratings",
    "ray": "integrations.ray",
    "ripple_rules": "text.ripple_rules",
    "robustness": "benchmark.robustness",
    "robustness.figure": "show.robustness_figure",
    "robustness.present": "show.robustness_table",
    "rouge_l": "scorers.formulas.rouge_l",
    "row_fields": "files.columns",
    "rows": "files.read",
    "score_file": "scorers.score_file",
    "scorers.checked_rows": "scorers.input_rows",
    "segmentation": "text.segmentation",
    "shipped": "files.shipped",
    "signature": "scorers.signature",
    "unseen_perturbations": "perturbations.unseen",
    "whole_file": "files.whole_file",
    "word_changes": "perturbations.differences",
    "word_classes": "text.word_classes",
}

# former module → its names that are not those of the present module: where each is now
FORMER_MEMBERS = {
    "backbones.embedded": {
        "CLASSES_FILE": "backbones.free:CLASSES_FILE",
        "UncentredBackbone": "backbones.uncentred:UncentredBackbone",
        "load_embedded_uncentred": "backbones.uncentred:load_uncentred",
    },
    "perturbed_rows": {
        "Counts": "perturbations.perturbed_file:KindCounts",
        "Options": "perturbations.perturbed_file:PerturbationOptions",
        "PerturbedRows": "perturbations.perturbed_file:PerturbedSource",
    },
    "rated_rows": {
        "Columns": "statistics.ratings:NumberColumns",
        "RatedRows": "statistics.ratings:RatedScores",
    },
    "row_fields": {
        "Fields": "files.columns:ColumnNames",
        "ImageFolder": "files.image_folder:ImageFolder",
        "Inputs": "files.columns:ChunkInputs",
        "find_fields": "files.columns:find_columns",
    },
    "rows": {
        "ArrowRows": "files.row_source:ArrowSource",
        "Chunk": "files.row_source:Chunk",
        "Rows": "files.row_source:RowSource",
        "Writer": "files.write:Writer",
        "check_output": "files.write:check_output",
        "open_writer": "files.write:open_writer",
        "output_kind": "files.write:output_kind",
        "partial_path": "files.write:partial_path",
        "summary_path": "files.write:summary_path",
    },
    "scorers.checked_rows": {"CheckedRows": "scorers.input_rows:InputRows"},
}


def present_name(former: str) -> str | None:
    """The name that a module has now, below `capscore.`, or None if it has no other.

    >>> present_name("agreement")
    'statistics.agreement'
    >>> present_name("protocols.foils")
    'benchmark.protocols.foil_accuracy'
    >>> present_name("scorers") is None
    True
    """
    parts = former.split(".")
    for end in range(len(parts), 0, -1):
        present = FORMER_NAMES.get(".".join(parts[:end]))
        if present is not None:
            return ".".join([present, *parts[end:]])
    return None


class FormerNames(MetaPathFinder, Loader):
    """Imports a module by its former name: the same object as by its present one.

    Where names inside it have changed too, it is a module of its own that looks them up.

    Args:
        package: the package whose modules have moved.
    """

    def __init__(self, package: str):
        self._prefix = f"{package}."
        self._own_specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(self._prefix):
            return None
        present = present_name(fullname.removeprefix(self._prefix))
        return None if present is None else ModuleSpec(fullname, self, origin=self._prefix + present)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(str(spec.origin))
        members = FORMER_MEMBERS.get(spec.name.removeprefix(self._prefix))
        if members is not None:
            return self._with_members(spec.name, module, members)
        # the import system writes the former name's spec into the module; `exec_module` puts its own back
        self._own_specs[spec.name] = module.__spec__
        return module

    def _with_members(self, name: str, present: ModuleType, members: Mapping[str, str]) -> ModuleType:
        def get(member: str) -> Any:
            if member not in members:
                return getattr(present, member)
            module, _, now = members[member].partition(":")
            return getattr(importlib.import_module(self._prefix + module), now)

        module = ModuleType(name, present.__doc__)
        vars(module)["__getattr__"] = get
        return module

    def exec_module(self, module: ModuleType) -> None:
        former = module.__spec__
        if former is not None and former.name in self._own_specs:
            module.__spec__ = self._own_specs.pop(former.name)


def answer_to_former_names(package: str) -> None:
    """Let the modules of `package` be imported by their former names; once is enough."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerNames(package))  # before the one that looks into folders
