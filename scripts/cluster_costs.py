#!/usr/bin/env python3
"""Plays through what a fit of ridge regression takes on W workers that meet in one place: docs/cluster-costs.md.

Each worker claims the next lot when it has given the state of the last; the place carries one state at a time; one worker merges all states in
order, and then every worker reads the total. Needs nothing beside Python.
"""

import heapq
import random
import sys

SEGMENT = 8192  # rows
STRETCH = 32  # segments
ROW_AT_2000 = 61e-6  # seconds of a row at rank 2,000 on a thread
BANDWIDTH = 1.25e9  # bytes a second at the place
READ = 2.0e9  # bytes a second at which a state is read and added


def lots(rows):
    """Rows of each lot: a stretch, or less where there are few segments; and states of a lot."""
    segments = -(-rows // SEGMENT)
    length = max(1, min(STRETCH, 1 << max(0, (segments // STRETCH)).bit_length() - 1)) if segments >= STRETCH else 1
    states = 1 if length == STRETCH else length
    return -(-segments // length), length * SEGMENT, states


def run(rows, rank, workers, folds=1, bandwidth=BANDWIDTH):
    """Seconds of the lots, of the last state and the merging behind them, of the total to all, and in all."""
    draw = random.Random(0)
    count, size, states = lots(rows)
    state = 8 * folds * rank * rank
    row = ROW_AT_2000 * (rank / 2000) ** 2
    # speed of each worker; lots are so many that a stretch of them stands for one where there are millions
    group = max(1, count // 200_000)
    count //= group
    at = [(0.0, 1 + draw.uniform(-0.1, 0.1)) for _ in range(min(workers, count))]
    heapq.heapify(at)
    place = computed = 0.0
    for _ in range(count):
        now, speed = heapq.heappop(at)
        done = now + group * size * row * speed
        computed = max(computed, done)
        place = max(place, done) + group * states * state / bandwidth
        # the worker waits for its state to be taken
        heapq.heappush(at, (place if place - done > 1 else done + states * state / bandwidth, speed))
    merged = place + group * count * states * state * (1 / bandwidth if workers > 2 else 1 / READ)
    total = workers * state / (bandwidth if workers > 2 else READ)
    solve = rank**3 / 3 / 20e9
    return computed, merged - computed, total, merged + total + solve


def clock(seconds):
    for unit, size in [("d", 86400), ("h", 3600), ("min", 60)]:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def main():
    for rows in [10**7, 10**9, 10**12]:
        for workers in [1, 10, 100, 1000]:
            computed, merging, total, whole = run(rows, 2000, workers)
            print(f"| 10{'⁷⁹'['79'.index(str(len(str(rows)) - 1))] if len(str(rows)) < 12 else '¹²'} | 2,000 | {workers:,} | {clock(computed)} | "
                  f"{clock(merging)} | {clock(total)} | {clock(whole)} |")
    one, two, four = (run(284_217, 2000, workers)[3] for workers in (1, 2, 4))
    print(f"{one:.1f} s with one thread, {two:.1f} with two workers, {four:.1f} with four", file=sys.stderr)


if __name__ == "__main__":
    main()
