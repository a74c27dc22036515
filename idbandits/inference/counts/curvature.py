"""Curvature of the log-density of means: its blocks of rows that go together, bordered by rows of small tables.

Coordinates are logarithms of ratios to the first entry of a row. In a log, most rows are about items: two items share
few rounds, so that the second derivatives by coordinates of different items are small and left out. Kept are those of
one item (rows at the same place of tables of equal length), and those of small tables, like positions, with all others.
They are measured by differences of slopes: in single directions for small tables, in random ones for all items at once.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from idbandits.inference.counts.log_density import Target
from idbandits.kernel.array_types import Floats, Ints, Rng

MOST_BORDER = 64  # coordinates of small tables
PROBES = 16  # random directions
WIDTH = 1e-3  # of differences
LEAST_INFORMATION = 0.01  # of a direction, as part of that if latent nodes were seen


class _Blocks(NamedTuple):
    """Tables of equal length: coordinates of each place, and the inverse of their curvature."""

    entries: Ints  # one row per place
    inverse: Floats  # a matrix per place
    border: Floats  # second derivatives by coordinates of a place and of the border


@final
class Curvature:
    """Negative second derivatives of the log-density at means."""

    def __init__(self, target: Target, means: Floats, rng: Rng) -> None:
        self._target, self._means, self._x = target, means, np.log(means)
        self._alpha = target.slope(means).alpha
        self._sums = target.row_sums(self._alpha)
        border, groups = _arranged(target)
        self._border = border
        columns = np.stack([self._column(e) for e in border]) if len(border) else np.empty((0, len(means)))
        sums = [np.zeros((*own.shape, own.shape[1])) for own in groups]
        for _ in range(PROBES if groups else 0):
            direction = np.zeros(len(means))
            for own in groups:
                direction[own] = rng.choice([-WIDTH, WIDTH], own.shape)
            change = self._change(direction)
            for own, total in zip(groups, sums, strict=True):
                total += change[own][:, :, None] * direction[own][:, None, :] / WIDTH**2 / PROBES
        self._blocks = [
            _Blocks(own, _inverse(self._bounded(own, total)), columns[:, own].transpose(1, 2, 0))
            for own, total in zip(groups, sums, strict=True)
        ]
        inner = self._bounded(border[None], columns[None, :, border])[0] if len(border) else np.empty((0, 0))
        for block in self._blocks:
            inner = inner - np.einsum("pib,pij,pjc->bc", block.border, block.inverse, block.border)
        floor = LEAST_INFORMATION * self._complete(border[None])[0] if len(border) else inner
        self._inner = _inverse(_raised(inner, floor)) if len(border) else inner

    def _column(self, entry: int) -> Floats:
        direction = np.zeros(len(self._x))
        direction[entry] = WIDTH
        return self._change(direction) / WIDTH

    def _change(self, direction: Floats) -> Floats:
        """Return the curvature times a direction."""
        target, slopes = self._target, []
        for sign in (1.0, -1.0):
            means = target.means(self._x + sign * direction)
            slopes.append(target.gradient(target.slope(means), means))
        return np.asarray((slopes[1] - slopes[0]) / 2.0)

    def _complete(self, entries: Ints) -> Floats:
        """Return the curvature of blocks if latent nodes were seen."""
        own, rows = self._means[entries], self._target.rows[entries]
        same = rows[:, :, None] == rows[:, None, :]
        shares = own[:, :, None] * (np.eye(entries.shape[1]) - same * own[:, None, :])
        return np.maximum(self._sums[entries], 1e-12)[:, :, None] * shares + 1e-12 * np.eye(entries.shape[1])

    def _bounded(self, entries: Ints, measured: Floats) -> Floats:
        """Return blocks whose curvature is, in each direction, a part of that if latent nodes were seen."""
        complete = self._complete(entries)
        root = np.linalg.cholesky(complete)
        inverse = np.linalg.inv(root)
        parts = inverse @ ((measured + measured.transpose(0, 2, 1)) / 2.0) @ inverse.transpose(0, 2, 1)
        sizes, directions = np.linalg.eigh(np.where(np.isfinite(parts), parts, 0.0))
        kept = (directions * np.clip(sizes, LEAST_INFORMATION, 1.0)[:, None, :]) @ directions.transpose(0, 2, 1)
        return np.asarray(root @ kept @ root.transpose(0, 2, 1))

    def solved(self, gradient: Floats) -> Floats:
        """Return the Newton step of a gradient."""
        step, right = np.zeros(len(gradient)), gradient[self._border]
        for block in self._blocks:
            step[block.entries] = np.einsum("pij,pj->pi", block.inverse, gradient[block.entries])
            right = right - np.einsum("pib,pi->b", block.border, step[block.entries])
        if len(self._border):
            step[self._border] = self._inner @ right
            for block in self._blocks:
                pull = np.einsum("pib,b->pi", block.border, step[self._border])
                step[block.entries] -= np.einsum("pij,pj->pi", block.inverse, pull)
        return step

    def strengths(self) -> Floats:
        """Return the sum of pseudo-counts of each row that has its variance, for each entry."""
        parts = [(block.entries, self._covariances(block)) for block in self._blocks]
        if len(self._border):
            parts.append((self._border[None], self._inner[None]))
        spread, variance = np.zeros(len(self._means)), np.zeros(len(self._means))
        for entries, covariances in parts:
            own, rows = self._means[entries], self._target.rows[entries]
            same = rows[:, :, None] == rows[:, None, :]
            slopes = own[:, :, None] * (np.eye(entries.shape[1]) - same * own[:, None, :])  # of means by coordinates
            of_means = np.einsum("pij,pjk,plk->pil", slopes, covariances, slopes)
            spread[entries] = own * (1.0 - own)
            variance[entries] = np.einsum("pii->pi", of_means)
            within = np.einsum("pij,pij->pi", of_means, same.astype(np.float64))  # the first entries of rows
            np.add.at(variance, rows, within)
            first = self._means[rows]
            spread[rows] = first * (1.0 - first)
        return np.asarray(self._target.row_sums(spread) / np.maximum(self._target.row_sums(variance), 1e-300))

    def _covariances(self, block: _Blocks) -> Floats:
        if not len(self._border):
            return block.inverse
        reach = block.inverse @ block.border
        return np.asarray(block.inverse + reach @ self._inner @ reach.transpose(0, 2, 1))


def _inverse(matrices: Floats) -> Floats:
    return np.asarray(np.linalg.inv(matrices), np.float64)


def _raised(matrix: Floats, floor: Floats) -> Floats:
    """Return a symmetric matrix that is at least `floor` in each direction."""
    root = np.linalg.cholesky(floor)
    inverse = np.linalg.inv(root)
    sizes, directions = np.linalg.eigh(inverse @ ((matrix + matrix.T) / 2.0) @ inverse.T)
    return np.asarray(root @ (directions * np.maximum(sizes, 1.0)) @ directions.T @ root.T)


def _arranged(target: Target) -> tuple[Ints, list[Ints]]:
    """Return the coordinates of small tables, and those of all others, by tables of equal length and by place."""
    tables = [rows for rows in target.entries.rows_by_table if len(rows)]
    sizes = [len(rows) * (int(target.entries.size[rows[0]]) - 1) for rows in tables]
    border, groups, left = list[Ints](), dict[int, list[Ints]](), MOST_BORDER
    for k in np.argsort(sizes, kind="stable"):
        rows = tables[k]
        own = rows[:, None] + np.arange(1, int(target.entries.size[rows[0]]))
        if sizes[k] <= left:
            left -= sizes[k]
            border.append(own.ravel())
        else:
            left = 0
            groups.setdefault(len(rows), []).append(own)
    joined = np.concatenate(border) if border else np.empty(0, np.int64)
    return joined, [np.concatenate(own, axis=1) for own in groups.values()]
