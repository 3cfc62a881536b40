"""CapArena's battles in the official JSON file."""

from tools.tiny.official import write_json

BOAT, STREET, DOG = "test_00001.jpg", "test_00002.jpg", "test_00003.jpg"
GPT, LLAVA, QWEN = "GPT-4o-0806", "LLaVA-1.5-7B", "Qwen2-VL-2B-Instruct"
LAKE, NIGHT, LIES = "A white boat on a calm lake.", "A wet street at night.", "A boat lies there."
# photo, systems, captions, winner, level, reference
BATTLES = [
    (BOAT, (GPT, LLAVA), (LAKE, "A boat."), GPT, 1, LIES),
    (BOAT, (LLAVA, QWEN), ("A boat.", "A boat on a lake."), "tie", 3, LIES),
    (STREET, (QWEN, GPT), ("A street.", NIGHT), GPT, 2, ""),
    (STREET, ("human", GPT), ("A street with lamps.", NIGHT), "human", 0, ""),
    (DOG, (LLAVA, GPT), ("A dog runs and jumps.", "A dog."), LLAVA, 4, "A dog."),
    (DOG, (GPT, QWEN), ("A dog.", "A brown dog."), "tie (bothbad)", 4, "A dog."),
]


def write(folder, name="caparena_annots_eval.json"):
    rows = []
    for photo, sources, captions, winner, level, reference in BATTLES:
        row = {"img": photo, "winner": winner, "in-400": level == 4}
        for number in (0, 1):
            row |= {f"source{number + 1}": sources[number], f"caption{number + 1}": captions[number]}
        if level:
            row["cluster"] = f"level {level}"
        rows.append({**row, "ref": reference})
    write_json(folder / name, rows, indent=1)


PHOTOS = [f"images/{photo}" for photo in (BOAT, STREET, DOG)]
ROWS = {("default", "test"): 6}
ELSEWHERE = "data/eval/caparena_annots_eval.json"
VARIANTS = {"as in the repository": (lambda folder: write(folder, ELSEWHERE), ROWS)}
DAMAGE = {
    ("default", "caparena_annots_eval.json"): [
        ('"winner": "tie"', '"winner": "draw"'),
        ('"level 1"', '"level 5"'),
        ('"source2": "LLaVA-1.5-7B"', '"source2": "GPT-4o-0806"'),
        ('"caption1": "A boat."', '"caption1": " "'),
        ('"img"', '"image"'),
    ]
}
