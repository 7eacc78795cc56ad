#!/usr/bin/env python3
"""Simulates the time of a ridge regression fit on W workers that share one medium, for docs/cluster-costs.md.

Each worker claims the next work unit after it has published the state (the sums) of the previous one; the medium transfers one state at a time;
one worker merges all states in order, and then every worker reads the total. Needs Python only.
"""

import heapq
import random
import sys

SEGMENT = 8192  # rows
BLOCK = 32  # segments of a reduction block
ROW_AT_2000 = 61e-6  # seconds per row at rank 2,000 with one thread
BANDWIDTH = 1.25e9  # bytes per second of the medium
READ = 2.0e9  # bytes per second at which a worker reads and adds a state


def work_units(rows):
    """Returns the number of work units, their rows (a reduction block, or fewer if there are few segments), and their states."""
    segments = -(-rows // SEGMENT)
    length = max(1, min(BLOCK, 1 << max(0, (segments // BLOCK)).bit_length() - 1)) if segments >= BLOCK else 1
    states = 1 if length == BLOCK else length
    return -(-segments // length), length * SEGMENT, states


def run(rows, rank, workers, folds=1, bandwidth=BANDWIDTH):
    """Returns seconds: of the work units, of the last state and the merge, of the total to all workers, and of the whole fit."""
    draw = random.Random(0)
    count, size, states = work_units(rows)
    state = 8 * folds * rank * rank
    row = ROW_AT_2000 * (rank / 2000) ** 2
    # workers have different speeds; millions of work units are simulated in groups
    group = max(1, count // 200_000)
    count //= group
    at = [(0.0, 1 + draw.uniform(-0.1, 0.1)) for _ in range(min(workers, count))]
    heapq.heapify(at)
    medium = computed = 0.0
    for _ in range(count):
        now, speed = heapq.heappop(at)
        done = now + group * size * row * speed
        computed = max(computed, done)
        medium = max(medium, done) + group * states * state / bandwidth
        # the worker waits until its state is transferred
        heapq.heappush(at, (medium if medium - done > 1 else done + states * state / bandwidth, speed))
    merged = medium + group * count * states * state * (1 / bandwidth if workers > 2 else 1 / READ)
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
