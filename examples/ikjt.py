"""The same samples as a KJT and as an IKJT through the same TorchRec tables: equal sums, fewer lookups.

    python -m examples.ikjt

64 sessions of 16 samples. The history of a user holds 50 films and moves on by one at a tenth of the samples; the film
shown is another one each time. It prints how many ids are looked up in either form, what windows would store, and the
largest difference between what the tables give for the two.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from streams.ikjt import Jagged, deduplicate, deduplicate_windows
from streams.ikjt.torchrec import to_kjt, to_vbe

SESSIONS: Final = 64
SAMPLES: Final = 16
LENGTH: Final = 50
CHANGES: Final = 0.1
FILMS: Final = 10_000


def histories(generator: np.random.Generator) -> Jagged:
    """[B] rows, session after session."""
    rows = []
    for _ in range(SESSIONS):
        films = generator.integers(0, FILMS, LENGTH + SAMPLES)
        moves = generator.random(SAMPLES) < CHANGES
        moves[0] = False
        rows += [films[start : start + LENGTH].tolist() for start in np.cumsum(moves)]
    return Jagged.from_lists(rows)


def compare(seed: int = 0) -> dict[str, float]:
    """Ids of the history in each form, and the largest difference."""
    generator = np.random.default_rng(seed)
    liked = histories(generator)
    shown = Jagged.from_lists([[film] for film in generator.integers(0, FILMS, liked.num_rows).tolist()])
    groups = [deduplicate("history", {"liked": liked}), deduplicate("item", {"item": shown})]
    windows = deduplicate_windows("history", {"liked": liked}, np.repeat(np.arange(SESSIONS), SAMPLES))
    films = EmbeddingBagConfig(name="film", num_embeddings=FILMS, embedding_dim=32, feature_names=["liked", "item"])
    tables = EmbeddingBagCollection(tables=[films])
    plain, distinct = tables(to_kjt(groups)).values(), tables(to_vbe(groups)).values()
    return {
        "ids of the history, KJT": groups[0].num_values_expanded,
        "ids of the history, IKJT": groups[0].num_values,
        "ids of the history, windows": windows.num_values,
        "largest difference": float((plain - distinct).detach().abs().max()),
    }


def main() -> None:
    """Print the comparison."""
    for name, figure in compare().items():
        sys.stdout.write(f"{name:<28} {figure:g}\n")


if __name__ == "__main__":
    main()
