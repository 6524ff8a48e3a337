"""Absolute scores: whether the best hit's score tells a question of the store from any other."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastassoc.quality.places import Place, Progress, Vectors
from fastassoc.quality.sets import AskedSet, Question
from fastassoc.quality.systems import System, ask

__all__ = ["BOUND", "FOREIGN", "measure_scores"]

BOUND = 0.3  # the best hit of a question about the store scores above it, any other below
QUERIES = 1_000  # of a set, at most
MADE = 200  # of each other kind
WORDS = 6  # of a query of random words
BINS = 20
FOREIGN = (
    "Wann fährt der letzte Zug nach Hause?",
    "Warum schmeckt das Brot heute so salzig?",
    "Wie lange muss man die Kartoffeln kochen?",
    "Welche Schuhe passen zu diesem Mantel?",
    "Où sont passées les clés de la voiture ?",
    "Combien de temps faut-il pour sécher le linge ?",
    "Pourquoi le chat dort-il sous le lit ?",
    "Quel fromage va avec ce vin rouge ?",
    "¿Cuánto cuesta arreglar una bicicleta vieja?",
    "¿Dónde puedo comprar pan fresco por la mañana?",
    "¿Por qué llora el niño de los vecinos?",
    "Dove hai messo gli occhiali da sole?",
    "Perché la finestra della cucina non si chiude?",
    "Quanto zucchero serve per la marmellata?",
    "Hvor lenge skal egget koke?",
    "Kuinka kauan lumi pysyy maassa keväällä?",
    "Hol lehet esernyőt venni ilyen későn?",
    "Gdzie można naprawić stary zegarek?",
    "Bu akşam yemekte ne pişirelim?",
    "Почему зимой так рано темнеет?",
    "Сколько стоит билет на утренний поезд?",
    "Где лежит ключ от сарая?",
    "Πού μπορώ να αγοράσω φρέσκο ψάρι;",
    "Γιατί γαβγίζει ο σκύλος τη νύχτα;",
    "متى يفتح السوق في الصباح؟",
    "لماذا انقطع الماء اليوم؟",
    "איפה אפשר לתקן מטריה שבורה?",
    "आज बाज़ार कितने बजे खुलेगा?",
    "วันนี้ฝนจะตกไหม",
    "明天早上几点出发去爬山？",
    "厨房的窗户为什么关不上？",
    "傘をどこに置き忘れましたか。",
    "今夜の夕食は何を作りましょうか。",
    "오늘 저녁에 무엇을 먹을까요?",
    "자전거를 어디에서 고칠 수 있나요?",
)
SYLLABLES = (
    *("ba", "ko", "mi", "ru", "ta", "ven", "dor", "lis", "pra", "gom"),
    *("nel", "zu", "thi", "sco", "fal", "wyn", "qua", "bri", "jen", "ox"),
)


def measure_scores(
    asked: AskedSet,
    places: Sequence[Place],
    systems: Sequence[System],
    others: Mapping[str, AskedSet],
    vectors: Vectors,
    seed: int,
    progress: Progress,
) -> dict[str, Any]:
    """Score the best hit of the set's own questions, and of questions that are off topic.

    Off topic are the questions of other sets, words drawn from the notes of other sets, made-up
    words, and questions in languages that the notes are not in.

    Returns
    -------
    dict
        ``bound``, and for each system and each kind of question: ``questions``, ``right`` (the
        share above the bound for the set's own, below it for all others), quantiles, and a
        histogram of 20 bins over [0, 1].
    """
    draw = random.Random(seed)
    own = [(place, question) for place in places for question in place.part.questions]
    own = draw.sample(own, min(len(own), QUERIES))
    kinds: dict[str, list[tuple[Place, str]]] = {"own": [(p, q.text) for p, q in own]}
    for name, texts in off_topic(asked, others, seed).items():
        kinds[name] = [(draw.choice(places), text) for text in texts]
    out = []
    for system in systems:
        row: dict[str, Any] = {"name": system.name, "title": system.title, "kinds": {}}
        for name, pairs in kinds.items():
            vectors.prepare([text for _, text in pairs], f"{asked.name}: scores")
            found = []
            for place in places:
                with place.asked(system.changes) as mem:
                    for other, text in pairs:
                        if other is place:
                            vector = place.vector(Question("", text, {}))
                            found.append(ask(mem, system, text, vector).best)
                            progress(f"{asked.name}: scores, {name}", len(found), len(pairs))
            row["kinds"][name] = _told(np.array(found), name == "own")
        out.append(row)
    return {"bound": BOUND, "systems": out}


def off_topic(asked: AskedSet, others: Mapping[str, AskedSet], seed: int) -> dict[str, list[str]]:
    """Texts that are about nothing in the set, by kind."""
    draw = random.Random(seed + 1)
    out: dict[str, list[str]] = {}
    for name, other in others.items():
        if name != asked.name:
            texts = [question.text for question in other.questions]
            out[f"questions of {name}"] = draw.sample(texts, min(QUERIES, len(texts)))
    words = sorted(
        {
            word.lower()
            for name, other in others.items()
            if name != asked.name
            for part in other.parts
            for row in part.rows
            for word in re.findall(r"[^\W\d_]{4,}", row["text"])
        }
    )
    if words:
        out["random words"] = [" ".join(draw.choices(words, k=WORDS)) for _ in range(MADE)]

    def made_up() -> str:
        return "".join(draw.choices(SYLLABLES, k=3))

    out["made-up words"] = [" ".join(made_up() for _ in range(WORDS)) for _ in range(MADE)]
    out["other languages"] = list(FOREIGN)
    return out


def _told(scores: np.ndarray[Any, np.dtype[np.float64]], own: bool) -> dict[str, Any]:
    right = scores > BOUND if own else scores < BOUND
    points = np.percentile(scores, [5, 50, 95]) if len(scores) else np.zeros(3)
    counts, _ = np.histogram(scores, BINS, (0.0, 1.0))
    return {
        "questions": len(scores),
        "right": round(float(right.mean()), 5) if len(scores) else 0.0,
        **dict(zip(("p5", "p50", "p95"), points.round(5).tolist(), strict=True)),
        "histogram": counts.tolist(),
    }
