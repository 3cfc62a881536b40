"""The file of published figures: whole, sourced, in range, and right in the cells that were read twice."""

import collections

import pytest

from capscore.backbones import registry
from capscore.benchmarks import published

FIGURES = published.figures()

VIT_B = "ViT-B-32-quickgelu/openai"
XLM_H = "xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k"


def groups(key, figures=FIGURES):
    found = collections.defaultdict(list)
    for figure in figures:
        found[key(figure)].append(figure)
    return found


def test_every_figure_says_what_it_is():
    assert len(FIGURES) > 3000 and len({figure.metric for figure in FIGURES}) == 42
    configs = {(figure.benchmark, figure.config) for figure in FIGURES}
    assert len({benchmark for benchmark, _ in configs}) == 23 and len(configs) == 71
    assert {figure.kind for figure in FIGURES} == {"published", "quoted", "recomputed"}
    assert {figure.source for figure in FIGURES if figure.kind == "recomputed"} == {"recomputed"}
    assert {figure.source for figure in FIGURES} | {"sarto-2025-survey"} == set(published.sources())
    assert all(source.short and source.full.endswith(".") for source in published.sources().values())
    for figure in FIGURES:
        assert figure.table and figure.statistic
        assert figure.backbone is None or figure.backbone in registry(), figure
        assert figure.language is None or len(figure.language) == 2
        assert "  " not in figure.note and not figure.setting.startswith("+")


def test_values_are_possible_in_their_unit():
    for unit, low, high in (("percent", -100, 100), ("fraction", -1, 1), ("score", 0, 2.5)):
        figures = [one for one in FIGURES if one.unit == unit and one.statistic != "one_minus_r2"]
        assert figures and all(low <= figure.value <= high for figure in figures)
    # a fraction entered as a percentage would hide among the drops only
    small = [figure for figure in FIGURES if figure.unit == "percent" and 0 < abs(figure.value) < 1]
    assert {figure.statistic.partition("_")[0] for figure in small} == {"drop"}


def test_the_registry_tells_the_same():
    names = {"VICR": ("vicr", "default", ""), "Composite": ("composite", "all", "cut_of_13146")}
    names |= {"Flickr8k-Expert": ("flickr8k_human", "expert", "")}
    names |= {"Flickr8k-CF": ("flickr8k_human", "crowdflower", "")}
    told, ours = {}, {}
    for known in registry().values():
        for benchmark, coefficients in known.agreement.items():
            for name, value in coefficients.items():
                told[(known.name, *names[benchmark], name.replace("rho", "spearman"))] = value
    for f in FIGURES:
        if (f.source, f.table) == ("gomes-2025", "Table 1"):
            ours[f.backbone, f.benchmark, f.config, f.setting, f.statistic] = f.value
    assert len(told) == 18 * 12 and ours == told


# Read a second time in the sources, a cell of each.
CELLS = [
    ("hu-2023", "Table 1", "flickr8k_human", "crowdflower", "clip_score", "tau_b", "", 34.4),
    ("hu-2023", "Table 2", "thumb", "default", "infometic", "pearson_total", "with_human+ablation_r5", 0.37),
    ("kim-2023", "Table 10", "multi30k", "de", "pr_mcs", "drop_masking", "", -98.88),
    ("kim-2023", "Table 11", "m_finecap3k", "es", "mcs", "mean_removal", "carlsson_text_tower", 0.9548),
    ("kim-2023-preprint", "Table 3", "flickr8k_human", "expert", "mcs", "pearson", "", 0.599),
    ("gomes-2025", "Table 2", "composite", "all", "cider", "tau_c", "cut_of_13146", 48.8),
    ("gomes-2025", "Table 5", "marvl", "all", "clip_score", "accuracy_2", "finetuned_both+overall", 79.0),
    ("sarto-2023-code", "README", "flickr8k_human", "crowdflower", "meteor", "tau_c", "", 11.510),
    ("recomputed", "Pascal-50S", "pascal50s", "default", "rouge_l", "accuracy_mm", "frozen_references", 60.4),
    ("lee-2024", "Table 1", "composite", "all", "fleur", "tau_c", "", 63.5),
    ("recomputed", "FLEUR's scores", "composite", "all", "fleur", "tau_c", "", 63.45),
    ("wada-2024", "Table 1", "flickr8k_human", "expert", "ref_pac_s", "tau_c", "", 55.9),
    ("matsuda-2025", "Table 1 and Table 4", "longcap_arena", "test_b_relevance", "vela", "tau_c", "", 52.3),
    ("inoue-2026", "wizwand.com", "foil", "default", "discode", "accuracy_all", "", 98.2),
    ("dong-2024-code", "README", "detailcaps", "default", "capture", "sample_tau", "", 0.6018),
    ("roy-dipta-2026", "model card", "flickr8k_human", "crowdflower", "vc_inspector", "tau_b", "", 45.97),
]


@pytest.mark.parametrize("source, table, benchmark, config, metric, statistic, setting, value", CELLS)
def test_cells_that_were_read_twice(source, table, benchmark, config, metric, statistic, setting, value):
    asked, figures = (source, table, statistic, setting), published.find(benchmark, config, metric)
    assert [f.value for f in figures if (f.source, f.table, f.statistic, f.setting) == asked] == [value]


def test_means_that_papers_print_are_those_of_their_rows():
    pascal = [f for f in FIGURES if (f.benchmark, f.source) == ("pascal50s", "hu-2023")]
    valse = [f for f in FIGURES if (f.benchmark, f.table) == ("valse", "Table 6")]
    rows = [*groups(lambda f: (f.metric, f.setting), pascal).values()]
    rows += groups(lambda f: (f.backbone, f.language, f.setting), valse).values()
    checked, wrong = 0, set()
    for figures in rows:
        (mean,) = (f.value for f in figures if "mean" in f.statistic or f.config == "all")
        parts = [f.value for f in figures if "mean" not in f.statistic and f.config != "all"]
        if len(parts) in (4, 11):
            checked += 1
            wrong |= {figures[0].metric} if abs(sum(parts) / len(parts) - mean) > 0.07 else set()
    assert checked == 18 + 6 + 79
    assert wrong == {"bleu_4"}  # 55.8 is printed, 62.05 would be right; its note says so
    (note,) = {f.note for f in pascal if (f.metric, f.statistic) == ("bleu_4", "accuracy_mean")}
    assert "62.05" in note


def test_a_figure_is_reproduced_to_half_a_unit_of_its_last_digit():
    def of(source, metric, statistic="tau_c", benchmark="flickr8k_human", config="expert"):
        found = published.find(benchmark, config, metric)
        return next(f for f in found if (f.source, f.statistic, f.setting) == (source, statistic, ""))

    # the column of the table says how many digits were printed: 8.71 stands among numbers of three
    code = of("sarto-2023-code", "bleu_4", config="crowdflower")
    assert (code.value, code.decimals, of("kim-2023", "cider").decimals) == (8.71, 3, 3)
    for figure, last in ((code, 1e-5), (of("hu-2023", "cider"), 1e-3), (of("kim-2023", "cider"), 1e-3)):
        near, far = (figure.measured_unit + part * last for part in (0.499, 0.501))
        assert (figure.standing(near), figure.standing(far)) == ("reproduced", "not reproduced")
    assert code.standing(None) == "not comparable: the measured value is undefined"
    drawn = of("hu-2023", "cider", "accuracy_hc", "pascal50s", "default")
    assert drawn.standing(0.537) == "not comparable: another random draw of references and labels"


def test_find_narrows_and_prefers():
    everything = published.find("flickr8k_human", None, "clip_score")
    expert = published.find("flickr8k_human", "expert", "clip_score")
    named = published.find("flickr8k_human", "expert", "clip_score", backbone=VIT_B)
    assert len(everything) > len(expert) > len(named) > 0
    assert {f.config for f in expert} == {"expert"} and {f.backbone for f in named} == {VIT_B}
    assert named == published.find("flickr8k_human", "expert", "clip_score", backbone="ViT-B/32")
    assert [f.value for f in published.find("vicr", "default", "cider", language="de")] == [58.3, 64.4, 74.4]
    assert published.find("flickr8k_human", "expert", "cider", backbone=VIT_B) == []
    # mcs and clip_score are one formula once the backbone is named
    mcs, clip_score = (published.find("xvnli", "fr", name, backbone=XLM_H) for name in ("mcs", "clip_score"))
    assert [f.value for f in mcs] == [f.value for f in clip_score] != []
    assert published.find("xvnli", "fr", "mcs") == []
    assert {f.metric for f in published.find("m_capeval1k", "en", "mcs")} == {"mcs"}
    # the first figure is the preferred one
    first = next(f for f in published.find("flickr8k_human", "expert", "cider") if f.statistic == "tau_b")
    assert first.citation == "Gomes et al. 2025, submission, Table 2"
    assert (first.unit, first.measured_unit) == ("percent", first.value / 100)
    cut = [f for f in published.find("composite", "all", "cider") if f.statistic == "tau_c"]
    assert (cut[0].value, cut[0].setting) == (37.7, "") and "cut_of_13146" in {f.setting for f in cut}
