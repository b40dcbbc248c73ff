#!/usr/bin/env python3
"""Deterministic inputs of the benchmarks: the same arguments always write the same bytes.

usage: gen.py words OUT BYTES    about BYTES of text: lines of ten words, Zipf over 100,000 words
       gen.py edges OUT COUNT    COUNT lines "source target" over 100,000 nodes, skewed in-degree
"""
import itertools
import random
import sys

WORDS = NODES = 100_000


def vocabulary(rnd):
    letters = "abcdefghijklmnopqrstuvwxyz"
    words, seen = [], set()
    while len(words) < WORDS:
        word = "".join(rnd.choice(letters) for _ in range(rnd.randint(3, 10)))
        if word not in seen:
            seen.add(word)
            words.append(word)
    return words


def write_words(out, size):
    rnd = random.Random(42)
    words = vocabulary(rnd)
    weights = list(itertools.accumulate(1.0 / (i + 1) for i in range(WORDS)))
    written = 0
    while written < size:
        chosen = rnd.choices(words, cum_weights=weights, k=100_000)
        text = "\n".join(" ".join(chosen[i : i + 10]) for i in range(0, len(chosen), 10)) + "\n"
        out.write(text)
        written += len(text)


def write_edges(out, count):
    rnd = random.Random(7)
    for _ in range(count):
        source = rnd.randrange(NODES)
        target = int(NODES * rnd.random() ** 2) % NODES
        out.write(f"{source} {target}\n")


if __name__ == "__main__":
    writers = {"words": write_words, "edges": write_edges}
    if len(sys.argv) != 4 or sys.argv[1] not in writers or not sys.argv[3].isdigit():
        sys.exit(__doc__)
    with open(sys.argv[2], "w", encoding="ascii") as out:
        writers[sys.argv[1]](out, int(sys.argv[3]))
