"""Factors: the ambiguous parts of rounds, as small circuits over table entries.

A factor is a row of integers: the number of its nodes, then the nodes, children first; the last one is its value. A
node is a sum: the number of its terms, then the terms. A term is a product: the number of its members, then these in
ascending order; a member is an entry, or -1 - n for node n. Equal factors of different rounds are counted together.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.inference.rounds.workspace import TINY, Parts, Workspace, log_weigh, unpack, weigh
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, unmanaged
from idbandits.kernel.structs import pointer


class Cursor(NamedTuple):
    """A term of a factor, by which `next_term` finds the next one."""

    nodes: int  # left, including that of the term; 0 after the last term
    terms: int  # left of the node, including this one
    at: int  # place of the term in the factor


@inlined
def first_term(factor: Ints) -> Cursor:
    """Return a cursor at the first term of a factor."""
    return Cursor(factor[0], factor[1], 2)


@inlined
def next_term(factor: Ints, term: Cursor) -> Cursor:
    """Return a cursor at the term after a term."""
    at = term.at + 1 + factor[term.at]
    if term.terms > 1:
        return Cursor(term.nodes, term.terms - 1, at)
    return Cursor(term.nodes - 1, factor[at] if term.nodes > 1 else 0, at + 1)


@inlined
def members(factor: Ints, at: int) -> range:
    """Return the places of the members of the term at a place; nodes come before entries."""
    return range(at + 1, at + 1 + factor[at])


@unmanaged
def list_entries(w: Workspace, factor: Ints, number: int, by_row: bool) -> int:
    """Append the learned entries of a factor to the first `number` of `rows`, and mark them; return the new number.

    If `by_row`, list the first entries of their rows. Marked entries are skipped; `unmark` clears all marks.
    """
    term = first_term(factor)
    while term.nodes > 0:
        for i in members(factor, term.at):
            if 0 <= factor[i] < w.v.learned:
                number = list_marked(w, number, w.v.row[factor[i]] if by_row else factor[i])
        term = next_term(factor, term)
    return number


@inlined
def list_marked(w: Workspace, number: int, e: int) -> int:
    """Append an entry to `rows` and mark it, unless it is marked; return the new number."""
    if w.marks[e] == 0:
        w.marks[e] = 1
        w.rows[number] = e
        number += 1
    return number


@inlined
def unmark(w: Workspace, number: int) -> None:
    """Clear the marks of the first `number` of `rows`."""
    for r in range(number):
        w.marks[w.rows[r]] = 0


@kernel(types.void(INTS, INTS, INTS))
def number_terms(keys: Ints, sizes: Ints, terms: Ints) -> None:
    """Write the numbers of terms for `terms_of_keys`."""
    first, number = 0, 0
    for g in range(len(sizes)):
        factor = pointer(keys, first)
        for i in range(first, first + sizes[g]):
            terms[i] = -1
        term = first_term(factor)
        while term.nodes > 0:
            for i in members(factor, term.at):
                terms[first + i] = number
            term = next_term(factor, term)
            number += 1
        first += sizes[g]


def terms_of_keys(keys: Ints, sizes: Ints) -> Ints:
    """Return the number of its term for every member in consecutive factors; -1 for numbers that are not members."""
    terms = np.empty(len(keys), np.int64)
    number_terms(keys, sizes, terms)
    return terms


@inlined
def value_of_factor(w: Workspace, factor: Ints, kind: int, alpha: Floats, memo: Floats) -> float:
    """Return the value of a factor; write the values of its nodes and terms to the workspace."""
    at, t = 1, 0
    for n in range(factor[0]):
        w.first_term[n] = t
        terms = factor[at]
        at += 1
        total = 0.0
        for _ in range(terms):
            product = 1.0
            for i in members(factor, at):
                member = factor[i]
                product *= w.node_values[-1 - member] if member < 0 else weigh(w.v, kind, member, alpha, memo)
            w.term_at[t], w.term_values[t] = at, product
            total += product
            at += 1 + factor[at]
            t += 1
        w.node_values[n] = total
    w.first_term[factor[0]] = t
    return w.node_values[factor[0] - 1]


@inlined
def expect(w: Workspace, factor: Ints, kind: int, alpha: Floats, memo: Floats) -> float:
    """Write the expected uses of every term of a factor (the E-step); return the logarithm of its value."""
    value = value_of_factor(w, factor, kind, alpha, memo)
    if not value > TINY:
        return expect_in_logs(w, factor, kind, alpha, memo)
    last = factor[0] - 1
    if last == 0:
        for t in range(w.first_term[1]):
            w.term_counts[t] = w.term_values[t] / value
        return np.log(value)
    for n in range(last):
        w.node_slopes[n] = 0.0
    w.node_slopes[last] = 1.0 / value
    for n in range(last, -1, -1):
        slope = w.node_slopes[n]
        for t in range(w.first_term[n], w.first_term[n + 1]):
            uses = slope * w.term_values[t]
            w.term_counts[t] = uses
            if uses > 0.0:
                for i in members(factor, w.term_at[t]):
                    if factor[i] >= 0:
                        break
                    w.node_slopes[-1 - factor[i]] += uses / w.node_values[-1 - factor[i]]
    return np.log(value)


@unmanaged
def expect_in_logs(w: Workspace, factor: Ints, kind: int, alpha: Floats, memo: Floats) -> float:
    """Variant of `expect` in logarithms, for values that underflow."""
    last = factor[0] - 1
    for n in range(last + 1):
        high = -np.inf
        for t in range(w.first_term[n], w.first_term[n + 1]):
            total = 0.0
            for i in members(factor, w.term_at[t]):
                member = factor[i]
                total += w.node_values[-1 - member] if member < 0 else log_weigh(w.v, kind, member, alpha, memo)
            w.term_values[t] = total
            high = max(high, total)
        rest = 0.0
        for t in range(w.first_term[n], w.first_term[n + 1]):
            rest += np.exp(w.term_values[t] - high) if high > -np.inf else 0.0
        w.node_values[n] = high + np.log(rest) if high > -np.inf else high
        w.node_slopes[n] = 0.0  # here: the expected uses of the node
    log_value = w.node_values[last]
    w.node_slopes[last] = 1.0 if log_value > -np.inf else 0.0
    for n in range(last, -1, -1):
        for t in range(w.first_term[n], w.first_term[n + 1]):
            uses = 0.0
            if w.node_slopes[n] > 0.0 and w.term_values[t] > -np.inf:
                uses = w.node_slopes[n] * np.exp(w.term_values[t] - w.node_values[n])
            w.term_counts[t] = uses
            for i in members(factor, w.term_at[t]):
                if factor[i] >= 0:
                    break
                w.node_slopes[-1 - factor[i]] += uses
    return log_value


@inlined
def split(w: Workspace, factor: Ints, times: int, rng: Rng) -> None:
    """Draw the uses of each term in `times` equal rounds into `term_counts`, after `value_of_factor`.

    A sum splits its count multinomially in proportion to its terms, and a term hands its count to all members: exact,
    at a cost that does not grow with `times`.
    """
    last = factor[0] - 1
    for n in range(last):
        w.visits[n] = 0
    w.visits[last] = times
    for n in range(last, -1, -1):
        left, rest = w.visits[n], w.node_values[n]
        first, end = w.first_term[n], w.first_term[n + 1]
        final = first  # takes all that is left, since `rest` is subject to rounding
        for t in range(first, end):
            if w.term_values[t] > 0.0:
                final = t
        for t in range(first, end):
            drawn, share = 0, w.term_values[t]
            if left > 0 and (share > 0.0 or t == final):
                drawn = rng.binomial(left, share / rest) if t != final and share < rest else left  # never of NaN
                rest -= share
                left -= drawn
            w.term_counts[t] = drawn
            if drawn > 0 and last > 0:
                for i in members(factor, w.term_at[t]):
                    if factor[i] >= 0:
                        break
                    w.visits[-1 - factor[i]] += drawn


@inlined
def add_counts(w: Workspace, factor: Ints, times: float, alpha: Floats) -> None:
    """Add the uses of the terms of a factor, multiplied by `times`, to the learned entries."""
    for t in range(w.first_term[factor[0]]):
        uses = times * w.term_counts[t]
        if uses > 0.0:
            for i in members(factor, w.term_at[t]):
                if 0 <= factor[i] < w.v.learned:
                    alpha[factor[i]] += uses


@kernel(types.int64(INTS, FLOATS, INTS, INTS))
def find_wrong(program: Ints, numbers: Floats, keys: Ints, sizes: Ints) -> int:
    """Return the number of the first of consecutive keys that is not a factor; -1 if all are."""
    _, v, _ = unpack(program, numbers)
    first = 0
    for g in range(len(sizes)):
        if not is_factor(v, pointer(keys, first), sizes[g]):
            return g
        first += sizes[g]
    return -1


@unmanaged
def is_factor(v: Parts, key: Ints, size: int) -> bool:
    """Return whether a key is a factor that fits into a workspace."""
    if not 1 <= key[0] <= v.most_nodes:
        return False
    at, all_terms = 1, 0
    for n in range(key[0]):
        if at >= size or not 1 <= key[at] <= v.most_terms - all_terms:
            return False
        terms = key[at]
        all_terms += terms
        at += 1
        for _ in range(terms):
            if at >= size or not 0 <= key[at] < size - at:
                return False
            least = -n
            for i in range(at + 1, at + 1 + key[at]):
                if not least <= key[i] < v.parameter_count:
                    return False
                least = key[i]
            at += 1 + key[at]
    return at == size
