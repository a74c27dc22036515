"""Choose offers in e-mails, and learn from purchases that come days later.

Every morning each subscriber of the day gets one of four offers; a fifth gets a random one for comparison. Purchases
come within two weeks. The job tells the agent what is known of a mail when it is 3, 7 and 14 days old, so recent mails
are neither counted as failures nor waited for. Subscribers are simulated: replace `Customers` by your data. Prints the
revenue per mail of agent and random offers by four weeks, and the learned purchase rates with the true ones.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import idbandits as idb

AGES = [3, 7, 14]  # days
MARGIN = {"shoes": 12.0, "shirts": 6.0, "bags": 9.0, "watches": 30.0}
SEGMENTS = ["new", "loyal"]


@dataclass
class Mail:
    """Mail of a day and what is known of it."""

    id: int
    day: int
    context: dict[str, str]
    action: dict[str, Any]
    by_agent: bool
    known: dict[str, int] = field(default_factory=dict)


class Customers:
    """Simulated subscribers; `purchases` has the day of the purchase by mail."""

    RATES = np.array([[0.05, 0.10], [0.08, 0.06], [0.03, 0.12], [0.01, 0.02]])  # offer x segment

    def __init__(self, seed: int) -> None:
        self.rng, self.purchases = np.random.default_rng(seed), dict[int, float]()

    def segment(self) -> str:
        """Return the segment of the next subscriber."""
        return str(self.rng.choice(SEGMENTS, p=[0.6, 0.4]))

    def receive(self, mail: Mail) -> None:
        """Decide whether and when the subscriber buys."""
        if (
            self.rng.random()
            < self.RATES[[*MARGIN].index(mail.action["offer"]), SEGMENTS.index(mail.context["segment"])]
        ):
            self.purchases[mail.id] = mail.day + 14 * self.rng.beta(1, 2)

    def has_bought(self, mail: Mail, day: float) -> bool:
        """Return whether the subscriber has bought by a day."""
        return mail.id in self.purchases and self.purchases[mail.id] <= day


def diagram() -> idb.Diagram:
    """Return the problem: an offer for a known segment, a purchase and its delay."""
    d = idb.Diagram("e-mail")
    segment, offer = d.context("segment", SEGMENTS), d.decision("offer", list(MARGIN))
    bought = d.latent("bought", [offer, segment], idb.Learned("purchase", prior=[9, 1]))
    d.reward([offer, bought], lambda offer, bought: MARGIN[offer] * bought)
    idb.delayed(d, bought, by=AGES)
    return d


def learn_due(agent: idb.Thompson, mails: list[Mail], customers: Customers, today: int) -> None:
    """Learn from every mail that reaches one of the ages today, whether something was bought or not."""
    for mail in mails:
        if (age := today - mail.day) in AGES:
            known = mail.known | {f"bought by {age}": int(customers.has_bought(mail, today))}
            if mail.known:
                agent.revise(mail.action, mail.known, known, mail.context)
            else:
                agent.update(mail.action, known, mail.context)
            mail.known = known


def revenue(mails: list[Mail], customers: Customers, by_agent: bool) -> str:
    """Return the revenue per mail in euros with its standard error."""
    own = [MARGIN[m.action["offer"]] * customers.has_bought(m, np.inf) for m in mails if m.by_agent is by_agent]
    return f"{np.mean(own):.3f} ± {np.std(own) / np.sqrt(len(own)):.3f}"


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and run the daily job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", type=int, default=12, help="length of the campaign (%(default)s)")
    parser.add_argument("--mails", type=int, default=200, help="per day (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (%(default)s)")
    parser.add_argument("--out", help="file for the agent, such as mail.npz")
    options = parser.parse_args(arguments)
    agent, customers, mails = idb.Thompson(diagram(), seed=options.seed), Customers(options.seed), list[Mail]()
    for today in range(7 * options.weeks):
        learn_due(agent, mails[-max(AGES) * options.mails :], customers, today)
        for _ in range(options.mails):
            context, by_agent = {"segment": customers.segment()}, customers.rng.random() < 0.8
            action = agent.act(context) if by_agent else {"offer": str(customers.rng.choice(list(MARGIN)))}
            mails.append(Mail(len(mails), today, context, action, by_agent))
            customers.receive(mails[-1])
    print("weeks  revenue per mail: agent        random offers")
    for first in range(0, options.weeks, 4):
        own = [mail for mail in mails if first <= mail.day // 7 < first + 4]
        print(f"{first + 1:>2} - {first + 4:<2}{revenue(own, customers, True):>24}{revenue(own, customers, False):>21}")
    table = agent.posterior()["purchase"].to_frame().assign(truth=Customers.RATES.ravel())
    print(table.round(3).to_string(index=False))
    if options.out:
        agent.save(options.out)


if __name__ == "__main__":
    main()
