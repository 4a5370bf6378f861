"""What the built-in models write, kept in `outputs.json`: `python tests/outputs.py` writes it anew.

A test compares: a change that is to leave the results alone leaves these texts alone.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from manyheads import load
from manyheads.catalog import built_in
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.music.model import Musician
from manyheads.tasks.seq2seq.model import Translator

KEPT = Path(__file__).with_suffix(".json")
SENTENCES = [
    ("Ich bin müde.", "I am tired."),
    ("Wo ist mein Buch?", "Where is my book?"),
    ("Er kommt heute nicht.", "He is not coming today."),
    ("Tom will nach Hause gehen.", "Tom wants to go home."),
    ("Was hast du heute gemacht?", "What did you do today?"),
    ("Ein Hund rennt über die Wiese.", "A dog runs across the meadow."),
    ("Bitte mach das Fenster nicht auf.", "Please don't open the window."),
    ("Das ist, was ich ihr gesagt habe.", "That's what I told her."),
    ("Du brauchst einen neuen Hut.", "You need a new hat."),
    ("Kannst du mir sagen, wo der Bahnhof ist?", "Can you tell me where the station is?"),
    ("Wenn es regnet, bleiben wir zu Hause.", "If it rains, we stay at home."),
    ("Ich habe gestern ein neues Buch gekauft.", "I bought a new book yesterday."),
    ("Mein Vater arbeitet in einer Fabrik.", "My father works in a factory."),
    ("Sie hat drei Kinder und einen Hund.", "She has three children and a dog."),
    ("Wie viel kostet das?", "How much is this?"),
    ("Genau das wollte ich!", "That's just what I wanted!"),
    ("Der Zug fährt um acht Uhr ab.", "The train leaves at eight o'clock."),
    ("Ich weiß nicht, was ich glaube. Und du?", "I don't know what I believe. Do you?"),
    ("Niemand hat mir geholfen.", "Nobody helped me."),
    ("Es ist nichts weiter zu sagen.", "There's nothing more to say."),
]
SEEDS = (0, 1)


def write(name: str) -> dict[str, Any]:
    """What a built-in model makes of the sentences, or of nothing but a seed."""
    model = load(name, "cpu")
    if isinstance(model, Translator):
        sources = [pair[name == "en-de"] for pair in SENTENCES]
        return {
            how: model.translate(sources, beam=beam) for how, beam in (("greedy", 1), ("beam", 5))
        }
    if isinstance(model, Musician):
        composed = [model.compose(seconds=10, seed=seed)[0] for seed in SEEDS]
        return {"chorales": [sha256(str(one.ids).encode()).hexdigest() for one in composed]}
    assert isinstance(model, ImageModel)
    stroke = np.zeros((18, 28, 1), np.uint8)
    stroke[5:, 13:15] = 255  # half of a 1, or of a 9
    drawn = {kind: model.generate(1, of_class=kind, begin=stroke, seed=7) for kind in ("1", "9")}
    return {kind: sha256(images.tobytes()).hexdigest() for kind, images in drawn.items()}


if __name__ == "__main__":
    texts = json.dumps({name: write(name) for name in built_in()}, ensure_ascii=False, indent=1)
    KEPT.write_text(f"{texts}\n", encoding="utf-8")
