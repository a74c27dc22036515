"""Factors: what a round says, less what is certain. A factor is a small circuit over table entries, as plain numbers.

Its first number says how many nodes it has; the nodes follow, children first, and the last one is its value. A node is
a sum: the number of its terms, then the terms. A term is a product: the number of its members, then these in ascending
order; a member is an entry, or -1 - n for node n. Rounds that say the same have equal factors, whatever else was shown.
"""

import numpy as np
from numba import types

from idbandits.inference.rounds.workspace import TINY, Parts, Workspace, log_weigh, unpack, weigh
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, unmanaged
from idbandits.kernel.structs import pointer


@inlined
def value_of_factor(w: Workspace, factor: Ints, kind: int, alpha: Floats, memo: Floats) -> float:
    """The value of a factor; the values of its nodes and terms are left in the workspace."""
    at, t = 1, 0
    for n in range(factor[0]):
        w.first_term[n] = t
        terms = factor[at]
        at += 1
        total = 0.0
        for _ in range(terms):
            product, end = 1.0, at + 1 + factor[at]
            for i in range(at + 1, end):
                member = factor[i]
                product *= w.node_values[-1 - member] if member < 0 else weigh(w.v, kind, member, alpha, memo)
            w.term_at[t], w.term_values[t] = at, product
            total += product
            at = end
            t += 1
        w.node_values[n] = total
    w.first_term[factor[0]] = t
    return w.node_values[factor[0] - 1]


@inlined
def expect(w: Workspace, factor: Ints, kind: int, alpha: Floats, memo: Floats) -> float:
    """The E-step: the expected uses of every term of a factor; the logarithm of its value."""
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
                at = w.term_at[t]
                for i in range(at + 1, at + 1 + factor[at]):
                    if factor[i] >= 0:  # members are sorted: nodes come first
                        break
                    w.node_slopes[-1 - factor[i]] += uses / w.node_values[-1 - factor[i]]
    return np.log(value)


@unmanaged
def expect_in_logs(w: Workspace, factor: Ints, kind: int, alpha: Floats, memo: Floats) -> float:
    """The same by logarithms, for values that are too small for numbers."""
    last = factor[0] - 1
    for n in range(last + 1):
        high = -np.inf
        for t in range(w.first_term[n], w.first_term[n + 1]):
            at, total = w.term_at[t], 0.0
            for i in range(at + 1, at + 1 + factor[at]):
                member = factor[i]
                total += w.node_values[-1 - member] if member < 0 else log_weigh(w.v, kind, member, alpha, memo)
            w.term_values[t] = total
            high = max(high, total)
        rest = 0.0
        for t in range(w.first_term[n], w.first_term[n + 1]):
            rest += np.exp(w.term_values[t] - high) if high > -np.inf else 0.0
        w.node_values[n] = high + np.log(rest) if high > -np.inf else high
        w.node_slopes[n] = 0.0  # here: how often the node is expected to be used
    log_value = w.node_values[last]
    w.node_slopes[last] = 1.0 if log_value > -np.inf else 0.0
    for n in range(last, -1, -1):
        for t in range(w.first_term[n], w.first_term[n + 1]):
            uses = 0.0
            if w.node_slopes[n] > 0.0 and w.term_values[t] > -np.inf:
                uses = w.node_slopes[n] * np.exp(w.term_values[t] - w.node_values[n])
            w.term_counts[t] = uses
            at = w.term_at[t]
            for i in range(at + 1, at + 1 + factor[at]):
                if factor[i] >= 0:
                    break
                w.node_slopes[-1 - factor[i]] += uses
    return log_value


@inlined
def split(w: Workspace, factor: Ints, times: int, rng: Rng) -> None:
    """Draw how often each term is used in `times` equal rounds, after `value_of_factor`: into `term_counts`.

    A sum splits its count multinomially in proportion to its terms, and a term hands its own to all members: exact, at
    a cost that does not grow with `times`.
    """
    last = factor[0] - 1
    for n in range(last):
        w.visits[n] = 0
    w.visits[last] = times
    for n in range(last, -1, -1):
        left, rest = w.visits[n], w.node_values[n]
        first, end = w.first_term[n], w.first_term[n + 1]
        final = first  # the last term takes all that is left, whatever rounding did to `rest`
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
                at = w.term_at[t]
                for i in range(at + 1, at + 1 + factor[at]):
                    if factor[i] >= 0:
                        break
                    w.visits[-1 - factor[i]] += drawn


@inlined
def add_counts(w: Workspace, factor: Ints, times: float, alpha: Floats) -> None:
    """Add the uses of a factor's terms, so many times, to the learned entries."""
    for t in range(w.first_term[factor[0]]):
        uses = times * w.term_counts[t]
        if uses > 0.0:
            at = w.term_at[t]
            for i in range(at + 1, at + 1 + factor[at]):
                if 0 <= factor[i] < w.v.learned:
                    alpha[factor[i]] += uses


@kernel(types.int64(INTS, FLOATS, INTS, INTS))
def find_wrong(program: Ints, numbers: Floats, keys: Ints, sizes: Ints) -> int:
    """The number of the first of several keys, one after the other, that is not a factor; -1 if all are."""
    _, v, _ = unpack(program, numbers)
    first = 0
    for g in range(len(sizes)):
        if not is_factor(v, pointer(keys, first), sizes[g]):
            return g
        first += sizes[g]
    return -1


@unmanaged
def is_factor(v: Parts, key: Ints, size: int) -> bool:
    """Whether numbers are a factor that fits into a workspace."""
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
