.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPAT := $(VENV)/datasets-3.6
TRAINING := build/training
# Weights that measure-embedded-infometic measures: those of capscore-weights, or a folder
INFOMETIC ?= weights/capscore_weights/infometic

# Nothing below asks a model hub for anything, whatever the machine's own settings are.
OFFLINE := HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_EVALUATE_OFFLINE=1 TRANSFORMERS_OFFLINE=1 \
	HF_HUB_DISABLE_TELEMETRY=1 GRADIO_ANALYTICS_ENABLED=False TOKENIZERS_PARALLELISM=false

# One test more at once than there are cores, as some wait for processes, but no more than memory is likely
# to hold (1.5 GB each).
WORKERS = $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
# Modules are compiled once, not by each process, whatever the machine's own settings are.
PYTEST = env PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadscope
# Tests whose numbers come out of torch or NumPy.
NUMERIC := tests/backbones tests/embedding tests/infometic tests/metrics tests/statistics tests/modules \
	tests/benchmarks tests/training/engine tests/training/test_infometic.py tests/training/test_pr_mcs.py \
	tests/training/test_teacher_learning.py tests/test_backbone_laws.py tests/test_metric_laws.py \
	tests/test_benchmark_laws.py tests/test_recipe_laws.py
HARNESSES := lm_eval lmms_eval lighteval trl torchmetrics
KERNELS := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=AVX2 CAPSCORE_TEST_THREADS=1 CAPSCORE_TEST_THREADS=3

.PHONY: help demo demo-judge picture test test-datasets-3.6 test-kernels test-harnesses test-lowest test-core test-pythons test-all coverage lint format bench export handbook publish release-check train-embedded train-embedded-published measure-embedded \
	sources train-embedded-pr-mcs train-embedded-image-tower train-embedded-infometic train-embedded-mark-calibration measure-embedded-infometic measure-embedded-image-tower \
	calibrate wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9.-]*:.*## / {printf "  make %-26s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The package of the weights; a source archive is without it, and takes that of the index.
WEIGHTS_PACKAGE := $(patsubst %/pyproject.toml,./%,$(wildcard weights/pyproject.toml))

$(VENV)/.installed: pyproject.toml $(wildcard weights/pyproject.toml)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "capscore needs Python 3.10 or newer; try make PYTHON=python3.12")'
	@echo "Installing capscore and its packages into $(VENV): some minutes, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' \
		$(addprefix --editable ,$(WEIGHTS_PACKAGE))
	@touch $@

$(COMPAT)/.installed: tests/requirements-datasets-3.6.txt $(VENV)/.installed
	rm -rf $(COMPAT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(COMPAT) \
		--requirement tests/requirements-datasets-3.6.txt
	@touch $@

demo: $(VENV)/.installed ## score photos in eight languages: demo.html
	$(OFFLINE) CAPSCORE_BACKBONE=embedded $(BIN)/python docs/demo.py

demo-judge: $(VENV)/.installed ## ask a tiny, untrained judge about photos: judge.html
	$(OFFLINE) $(BIN)/python docs/judge_demo.py

picture: $(VENV)/.installed ## draw the picture at the top of the README
	$(OFFLINE) $(BIN)/python docs/picture.py

test: $(VENV)/.installed ## run the tests with the newest datasets
	$(OFFLINE) $(PYTEST)

# What reads or makes data sets of `datasets`, or runs inside `evaluate`.
ON_DATASETS := tests/modules tests/datasets_scripts tests/test_benchmark_laws.py tests/files/test_read.py \
	tests/files/test_write.py tests/images/test_load.py tests/metrics/test_stream.py \
	tests/test_metric_laws.py::test_the_module_gives_the_numbers_of_the_library \
	tests/test_metric_laws.py::test_streams_and_frameworks_give_the_numbers_of_the_library
test-datasets-3.6: $(COMPAT)/.installed ## test modules, scripts and data sets with datasets 3.6
	$(OFFLINE) PYTHONPATH=$(COMPAT) CAPSCORE_EXPECT_DATASETS=3.6.0 $(PYTEST) $(ON_DATASETS)

test-kernels: $(VENV)/.installed ## test with other CPU kernels and threads
	for setting in $(KERNELS); do echo $$setting; env $(OFFLINE) $$setting $(PYTEST) $(NUMERIC) || exit 1; done

# An environment per harness, on top of the one that is there; torchmetrics draws with matplotlib.
PLOTS_torchmetrics := matplotlib
$(VENV)/harness/%/.installed: $(VENV)/.installed
	rm -rf $(@D)
	$(BIN)/python -m venv $(@D)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$(echo $(@D)/lib/python3*/site-packages)/capscore.pth
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $* $(PLOTS_$*)
	@touch $@

# the tests that a harness runs: its own, with those of Trainer and of evaluate beside torchmetrics
TESTS_trl := tests/integrations/test_trl.py
TESTS_torchmetrics := tests/integrations/test_torchmetrics.py tests/integrations/test_trainer.py tests/modules/test_contract.py
test-in-%: $(VENV)/harness/%/.installed
	$(OFFLINE) $(<D)/bin/python -c "import $*"
	$(OFFLINE) $(<D)/bin/python -m pytest -r s --numprocesses 0 --all $(or $(TESTS_$*),tests/integrations/test_harness.py -k $*)

test-harnesses: $(HARNESSES:%=test-in-%) ## test in lm-eval, lmms-eval, lighteval, TRL and torchmetrics

# An environment each for other versions, made by uv. What is tried in it: stored scores and signatures, the
# laws of metrics on toy backbones and of file formats, and what missing extras say. The tiny judges are written
# by transformers 5. One process each: `make --jobs 2` tries two at once.
VERSIONS := $(VENV)/versions
UV := $(VERSIONS)/uv/bin/uv
SMOKE := tests/test_stored_scores.py tests/test_extras.py tests/test_metric_laws.py tests/test_file_format_laws.py
SMOKE_EXTRAS := embedded nouns torchmetrics ray meteor
SMOKE_PACKAGES := 'pytest>=8.3,<10' 'pytest-xdist>=3.6,<4' 'hypothesis>=6.120,<7' 'packaging>=24.2'
SMOKED = env $(OFFLINE) $(1)/bin/python -m pytest --numprocesses 0
SMOKE_REQUIREMENTS = --requirements pyproject.toml $(addprefix --extra ,$(SMOKE_EXTRAS)) \
	--editable . $(addprefix --editable ,$(WEIGHTS_PACKAGE)) $(SMOKE_PACKAGES)

# Interpreters that are on this machine, those that pyenv holds among them
interpreter = $(shell PYENV_VERSION=3.10:3.11:3.12:3.13 python$(1) -c 'import sys; print(sys.executable)' 2> /dev/null)
PYTHONS = $(foreach version,3.10 3.11 3.12 3.13,$(call interpreter,$(version)))
OTHERS := 3.12 3.13
OTHERS_HERE = $(foreach version,$(OTHERS),$(if $(call interpreter,$(version)),$(version)))

# Packages of $(VENV) in another environment, as hard links: gigabytes that need not be downloaded again. The
# libraries of CUDA are the same for every interpreter, where torch is.
linked = find $(VENV)/lib/python3*/site-packages -maxdepth 1 \( -false $(foreach name,$(1),-o -name '$(name)') \) \
	-exec cp -al {} $$(echo $(@D)/lib/python3*/site-packages)/ \;

$(UV):
	$(PYTHON) -m venv $(VERSIONS)/uv
	$(VERSIONS)/uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8,<1'

$(VERSIONS)/lowest/.installed: pyproject.toml $(UV)
	$(UV) venv --quiet --clear --python $(firstword $(PYTHONS) $(PYTHON)) $(@D)
	$(UV) pip install --quiet --python $(@D) --resolution lowest-direct $(SMOKE_REQUIREMENTS)
	@touch $@

$(VERSIONS)/core/.installed: $(VENV)/.installed $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(@D)
	$(call linked,torch torch-* torchgen torchvision* functorch triton* nvidia*)
	$(UV) pip install --quiet --python $(@D) --editable . $(SMOKE_PACKAGES)
	@touch $@

.PRECIOUS: $(VERSIONS)/python%/.installed
$(VERSIONS)/python%/.installed: $(VENV)/.installed $(UV)
	@test -n "$(call interpreter,$*)" || { echo "there is no Python $* on this machine"; exit 2; }
	$(UV) venv --quiet --clear --python $(call interpreter,$*) $(@D)
	$(call linked,nvidia*)
	$(BIN)/python -c 'from importlib.metadata import version; print("torch==" + version("torch"))' > $(@D)/torch.txt
	$(UV) pip install --quiet --python $(@D) --constraint $(@D)/torch.txt $(SMOKE_REQUIREMENTS)
	@touch $@

test-core: $(VERSIONS)/core/.installed ## smoke tests without any extra, with the newest versions
	$(call SMOKED,$(<D)) tests/test_extras.py tests/test_file_format_laws.py

test-lowest: $(VERSIONS)/lowest/.installed ## smoke tests with the lowest versions, on the oldest Python
	$(call SMOKED,$(<D)) $(SMOKE) -k 'not judge'

test-on-%: $(VERSIONS)/python%/.installed
	$(call SMOKED,$(<D)) $(SMOKE)

# One make for all: another inside would install $(VENV) a second time, beside the first.
.SECONDEXPANSION:
test-pythons: $$(addprefix test-on-,$$(OTHERS_HERE)) ## smoke tests on Python 3.12 and 3.13, if installed; make test-on-3.12 for one
	@$(foreach version,$(filter-out $(OTHERS_HERE),$(OTHERS)),echo "left out: Python $(version) is not on this machine";)

test-all: test-datasets-3.6 test-kernels test-harnesses ## run everything: slow tests, every hostile input
	$(OFFLINE) $(PYTEST) --all

coverage: $(VENV)/.installed ## test; print how much of capscore/ is covered
	$(OFFLINE) $(PYTEST) --cov=capscore --cov-report=term:skip-covered

lint: $(VENV)/.installed ## check style, formatting and types
	$(BIN)/ruff check --no-cache .  # its cache does not notice that a module has moved
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

format: $(VENV)/.installed ## correct style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed ## measure speed and memory, as ratios
	$(OFFLINE) $(BIN)/python -m speed

export: $(VENV)/.installed ## write a benchmark as Parquet: DATA=… OUT=…
	@test -n "$(DATA)" -a -n "$(OUT)" || { \
		echo "make export DATA=<benchmark> DATA_DIR=<folder of its files> OUT=<folder to make>"; exit 2; }
	$(OFFLINE) $(BIN)/capscore data export $(DATA) --output $(OUT) $(if $(DATA_DIR),--data-dir $(DATA_DIR))

handbook: $(VENV)/.installed ## build the documentation: build/handbook
	$(OFFLINE) $(BIN)/python -m docs.handbook

# Wheels go into the Spaces unless INSTALL=release.
METRICS := mcs pr_mcs ref_clip_score infometic clip_score judge cider
WEIGHTS := image_tower pr_mcs infometic mark_calibration
publish: $(VENV)/.installed $(if $(INSTALL),,wheel) ## publish metrics and weights on the Hub: ORG=… [DRY=1]
	@test -n "$(ORG)" || { echo "make publish ORG=<organisation or user> [INSTALL=release] [DRY=1]"; exit 2; }
	for name in $(WEIGHTS); do \
		$(BIN)/capscore publish weights $$name --org $(ORG) --results results --overwrite-card $(if $(DRY),--dry-run) || exit 1; done
	for name in $(METRICS); do \
		$(BIN)/capscore publish metric $$name --org $(ORG) --overwrite-card $(if $(DRY),--dry-run) \
			$(if $(INSTALL),--install $(INSTALL),$$(printf -- '--install %s ' dist/*.whl)) || exit 1; done

# Where the sources of the weights are; DATA and PHOTOS are its folders, or others. TOWER: a backbone to build on
# instead of a new image tower, whose second stage is for a GPU. CONFIGS: settings of the runs.
SOURCES ?= build/sources
CONFIGS ?= weights/making/configs
MADE_DATA = $(or $(DATA),$(SOURCES)/data)
MADE_PHOTOS = $(or $(PHOTOS),$(SOURCES)/photos)
MADE_TOWER = $(or $(TOWER),$(TRAINING)/image_tower)
NEW_TOWER := $(if $(TOWER),,$(TRAINING)/image_tower/model.safetensors)
MAKING := $(BIN)/python -m weights.making
sources: $(VENV)/.installed ## fetch what the weights are made from: [SOURCES=folder] [MIRROR=folder]
	$(BIN)/python -m weights.making.sources fetch --to $(SOURCES) $(if $(MIRROR),--mirror $(MIRROR))

train-embedded: train-embedded-pr-mcs train-embedded-infometic train-embedded-mark-calibration ## make all weights, step by step, and measure them: [DATA=folder] [PHOTOS=folder]
	$(MAKE) measure-embedded measure-embedded-infometic measure-embedded-image-tower PR_MCS=$(TRAINING)/pr_mcs \
		BACKBONE=$(MADE_TOWER) INFOMETIC=$(TRAINING)/infometic \
		MARKS=$(TRAINING)/mark_calibration DATA=$(MADE_DATA) PHOTOS=$(MADE_PHOTOS) \
		DESCRIPTIONS=$(SOURCES)/measured/descriptions XTD10=$(SOURCES)/measured/xtd10 TRAINED=$(TRAINING)/captions.jsonl
	$(BIN)/python -m weights.measuring.summary --run $(TRAINING)

train-embedded-pr-mcs: $(TRAINING)/pr_mcs/capscore_tuned.json ## make PR-MCS's weights: [TOWER=embedded]
train-embedded-image-tower: $(TRAINING)/image_tower/model.safetensors ## make the image tower, the second stage on a GPU
train-embedded-infometic: $(TRAINING)/infometic/result.json ## make InfoMetIC's network: [TOWER=embedded]
train-embedded-mark-calibration: $(TRAINING)/fit_references.json ## make its mark calibration: [TOWER=embedded]

# A step whose file is there is not run again, unless its settings or what it reads are newer; a recipe continues an
# interrupted run. Times are those of 2 cores with bfloat16, or of one H200 where a GPU is named.
$(TRAINING)/texts/zh.jsonl: | $(VENV)/.installed
	@echo "texts: 3 minutes"
	$(MAKING).package_texts --sources $(SOURCES) --out $(TRAINING)/texts

$(TRAINING)/captions.jsonl: $(CONFIGS)/captions.yaml $(TRAINING)/texts/zh.jsonl
	@echo "captions: 10 minutes"
	$(MAKING).captions --config $< --data $(MADE_DATA) --texts $(TRAINING)/texts --out $@

# the text adapter, from captions alone, and then the trunk's last stages and the head
$(TRAINING)/image_tower_first/model.safetensors: $(CONFIGS)/image_tower.yaml $(TRAINING)/texts/zh.jsonl
	@echo "image tower, first stage: 15 minutes of features and captions, and 37 of training"
	$(MAKING).image_tower --config $< --data $(MADE_DATA) --photos $(MADE_PHOTOS) --texts $(TRAINING)/texts --out $(@D)

$(TRAINING)/image_tower/model.safetensors: $(CONFIGS)/image_tower_second.yaml $(TRAINING)/image_tower_first/model.safetensors
	@echo "image tower, second stage: 2 minutes on a GPU; hours on 2 cores"
	$(MAKING).image_tower.second --config $< --start $(TRAINING)/image_tower_first --data $(MADE_DATA) \
		--photos $(MADE_PHOTOS) --texts $(TRAINING)/texts --out $(@D)

$(TRAINING)/pr_mcs/capscore_tuned.json: $(CONFIGS)/pr_mcs.yaml $(TRAINING)/captions.jsonl $(NEW_TOWER)
	@echo "noise gate: 85 minutes"
	$(MAKING).noise_gate --config $< --base $(MADE_TOWER) --texts $(TRAINING)/captions.jsonl --out $(@D)

$(TRAINING)/infometic.jsonl: $(TRAINING)/captions.jsonl
	@echo "rows of InfoMetIC: 2 minutes"
	$(MAKING).infometic --data $(MADE_DATA) --captions $< --photos $(MADE_PHOTOS)/flickr8k --out $@

$(TRAINING)/infometic/result.json: $(CONFIGS)/infometic.yaml $(TRAINING)/infometic.jsonl $(NEW_TOWER)
	@echo "InfoMetIC's network: 8 minutes on a GPU; on 2 cores 20 of features and hours of training"
	$(MAKING).infometic_network --config $< --base $(MADE_TOWER) --data $(TRAINING)/infometic.jsonl \
		--image_dir $(MADE_PHOTOS)/flickr8k --out $(@D)

$(TRAINING)/mark_rows.jsonl: $(TRAINING)/texts/zh.jsonl
	@echo "rows of the marks: 2 minutes"
	$(MAKING).mark_calibration.rows --data $(MADE_DATA) --texts $(TRAINING)/texts --photos $(MADE_PHOTOS) --out $@

$(TRAINING)/boxes.json: $(TRAINING)/mark_rows.jsonl
	@echo "boxes: 10 minutes"
	$(MAKING).mark_calibration.boxes --rows $< --detector $(SOURCES)/models/yolox_nano.onnx --out $@

$(TRAINING)/mark_calibration/result.json: $(CONFIGS)/mark_calibration.yaml $(TRAINING)/boxes.json $(NEW_TOWER)
	@echo "marks: 10 minutes of features, 16 of training and 8 of curves"
	$(MAKING).mark_calibration --config $< --base $(MADE_TOWER) --rows $(TRAINING)/mark_rows.jsonl \
		--boxes $(TRAINING)/boxes.json --out $(@D)

$(TRAINING)/fit_references.json: $(TRAINING)/mark_calibration/result.json
	@echo "the curve of captions with references: 5 minutes"
	$(MAKING).fit_references --flickr8k $(MADE_DATA)/flickr8k --photos $(MADE_PHOTOS)/flickr8k \
		--backbone $(MADE_TOWER) --calibration $(<D) --out $@

# The paper's own losses on the same backbone, without a gate: what the gate adds is measured against them.
train-embedded-published: $(VENV)/.installed ## train PR-MCS as published: DATA=folder PHOTOS=folder
	@test -n "$(DATA)" -a -n "$(PHOTOS)" || { \
		echo "make train-embedded-published DATA=<folder with multi30k, flickr8k, xflickrco>" \
			"PHOTOS=<folder of Flickr8k's photos>, after make train-embedded"; exit 2; }
	$(BIN)/python -m weights.making.infometic --data $(DATA) --captions $(TRAINING)/captions.jsonl \
		--photos $(PHOTOS) --beginnings 0 --out $(TRAINING)/pictured.jsonl \
		--most en:30000 de:10000 fr:10000 cs:10000 ar:10000 es:5000 ja:5000
	$(OFFLINE) $(BIN)/python -m training.pr_mcs --config training/configs/pr_mcs.yaml --base embedded \
		--logit_scale 30 --data $(TRAINING)/pictured.jsonl --image_dir $(PHOTOS) \
		--license cc-by-nc-4.0 --name "PR-MCS as published, on embedded" --out $(TRAINING)/pr-mcs-published

# Metrics whose percentiles ship: METRIC@BACKBONE, and numbers of references.
CALIBRATED := --metric mcs@embedded,clip_score@embedded,pr_mcs@embedded-pr-mcs,fit@embedded,ref_clip_score@embedded,text_score@embedded \
	--metric infometic@embedded --n-references 1 --n-references 2 --n-references 3 --n-references 4 \
	--shuffled 3
calibrate: $(VENV)/.installed ## measure what a good score is: DATA=folder PHOTOS=folder
	@test -n "$(DATA)" -a -n "$(PHOTOS)" || { \
		echo "make calibrate DATA=<folder with flickr8k, xflickrco, multi30k> PHOTOS=<folder of Flickr8k's photos>" \
			"[DESCRIPTIONS=<folder Data of cltl/DutchDescriptions>]"; exit 2; }
	$(OFFLINE) $(BIN)/python -m weights.measuring.held_out --data $(DATA) --photos $(PHOTOS) \
		$(addprefix --descriptions ,$(DESCRIPTIONS)) --out $(TRAINING)/held_out
	$(OFFLINE) $(BIN)/capscore calibrate $(TRAINING)/held_out/calibration.jsonl $(CALIBRATED) --force \
		--set-name "325 photos of Flickr8k" --output capscore/metrics/calibrations/embedded.json
	$(BIN)/python docs/scores.py

# The network that every figure of measure-embedded-infometic is of
MEASURED_INFOMETIC = --backbone $(or $(BACKBONE),embedded) --weights $(INFOMETIC) $(if $(MARKS),--marks $(MARKS))
measure-embedded-infometic: $(VENV)/.installed ## measure InfoMetIC's weights: DATA=folder PHOTOS=folder
	@test -n "$(DATA)" -a -n "$(PHOTOS)" || { \
		echo "make measure-embedded-infometic DATA=<folder with flickr8k, multi30k, xflickrco>" \
			"PHOTOS=<folder with flickr8k, or of Flickr8k's photos> [COCO=<folder with annotations and photos>]"; exit 2; }
	$(MAKE) $(TRAINING)/mark_rows.jsonl
	$(OFFLINE) $(BIN)/python -m weights.measuring.believable_marks --rows $(TRAINING)/mark_rows.jsonl --data $(DATA) \
		$(MEASURED_INFOMETIC) $(if $(COCO),--coco $(COCO)) --output $(TRAINING)/marks.json
	$(OFFLINE) $(BIN)/capscore benchmark --metric infometic $(MEASURED_INFOMETIC) --data flickr8k_human \
		--config expert --data-dir $(DATA)/flickr8k --image-dir $(or $(wildcard $(PHOTOS)/flickr8k),$(PHOTOS)) --output $(TRAINING)/infometic-expert.json --force

# What is not there is listed as not measured.
measure-embedded-image-tower: $(VENV)/.installed ## measure the image tower: DATA=folder PHOTOS=folder
	@test -n "$(DATA)" -a -n "$(PHOTOS)" || { \
		echo "make measure-embedded-image-tower DATA=<folder with flickr8k, multi30k, xflickrco, pascal50s, composite, vicr>" \
			"PHOTOS=<folder with flickr8k, voc_animals, coco_val2014> [SOURCES=<folder>]" \
			"[BACKBONE=<name or folder>]"; exit 2; }
	$(OFFLINE) $(BIN)/python -m weights.measuring.image_tower --data $(DATA) --photos $(PHOTOS) \
		--sources $(SOURCES) $(if $(BACKBONE),--backbone $(BACKBONE)) \
		--output $(TRAINING)/image_tower.json --markdown $(TRAINING)/image_tower.md

# Backbones of PR-MCS that measure-embedded measures: folders or names
PR_MCS ?= embedded-pr-mcs
measure-embedded: $(VENV)/.installed ## measure the PR-MCS weights, and MCS of changed captions: DATA=folder
	@test -n "$(DATA)" || { \
		echo "make measure-embedded DATA=<folder with flickr8k, multi30k, xflickrco, capeval1k, composite, polaris, thumb>" \
			"[DESCRIPTIONS=<folder Data of cltl/DutchDescriptions>] [PR_MCS='<folders or names>']" \
			"[TRAINED=<captions of the training>, with it XTD10=<folder of test_1kcaptions_en.txt and others>]"; exit 2; }
	$(OFFLINE) $(BIN)/python -m weights.measuring.held_out --data $(DATA) $(addprefix --descriptions ,$(DESCRIPTIONS)) \
		$(if $(XTD10),--xtd10 $(XTD10) --trained $(TRAINED)) --out $(TRAINING)/held_out
	$(OFFLINE) $(BIN)/python -m weights.measuring.pr_mcs_alarms --data $(DATA) --held-out $(TRAINING)/held_out \
		$(foreach name,$(PR_MCS),--backbone $(name)) \
		--markdown $(TRAINING)/pr_mcs.md --output $(TRAINING)/pr_mcs.json
	test ! -e $(TRAINING)/held_out/photos.jsonl || $(OFFLINE) $(BIN)/python -m weights.measuring.changed_captions \
		--rows $(TRAINING)/held_out/photos.jsonl --backbone $(or $(BACKBONE),embedded) \
		--output $(TRAINING)/changed_captions.json

wheel: $(VENV)/.installed ## build both wheels into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . $(WEIGHTS_PACKAGE)

release-check: $(VENV)/.installed ## check archives, clean installations, licences, vulnerabilities
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	$(BIN)/python -m tools.release $(foreach python,$(PYTHONS),--python $(python)) \
		$(if $(PYTHONS),--oldest $(firstword $(PYTHONS)))

clean: ## remove what make made, with the environment
	rm -rf $(VENV) build dist *.egg-info demo.html judge.html .coverage .pytest_cache .ruff_cache .mypy_cache .hypothesis
