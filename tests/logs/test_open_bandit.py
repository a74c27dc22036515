"""Values of policies on the Open Bandit logs, which are not part of the project: real clicks with true propensities."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import idbandits as idb

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "open-bandit"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the Open Bandit logs are not in ../shared/data/open-bandit"
)
CAMPAIGNS = {"all": 80, "men": 34}


def log(policy, campaign):
    return pd.read_csv(FOLDER / f"{policy}_{campaign}.csv.gz")[["position", "item_id", "click", "propensity_score"]]


def diagram(items):
    d = idb.Diagram("impression")
    shown = d.context("position", [1, 2, 3]), d.decision("item_id", items)
    d.reward(d.observed("click", shown, idb.Learned("click", pooled=True)))
    return d


def shares(frame):
    """Return how often a policy showed each item at each position."""
    return {
        position: list(own["item_id"].value_counts(normalize=True).items())
        for position, own in frame.groupby("position")
    }


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize(("logging", "target"), [("random", "bts"), ("bts", "random")])
def test_values_agree_with_those_on_policy(campaign, logging, target):
    items = CAMPAIGNS[campaign]
    logged, played = log(logging, campaign), log(target, campaign)
    uniform = {position: [(item, 1 / items) for item in range(items)] for position in (1, 2, 3)}
    policy = uniform if target == "random" else shares(played)
    result = idb.evaluate(policy, logged, diagram(items), propensity="propensity_score", seed=0)
    frame = result.frame.set_index("estimator")
    clicks, truth = played["click"], played["click"].mean()
    error = 1.96 * clicks.std() / np.sqrt(len(clicks))
    for name in ("IPS", "self-normalised IPS", "doubly robust", "direct method"):
        own = frame.loc[name]
        assert own["low"] <= truth + error, name
        assert own["high"] >= truth - error, name
        assert 0 < own["high"] - own["low"] < 0.02
    chances = {(position, item): share for position, own in policy.items() for item, share in own}
    weights = [chances.get(key, 0.0) for key in zip(logged["position"], logged["item_id"], strict=True)]
    weights = np.array(weights) / logged["propensity_score"].to_numpy()
    assert frame.loc["IPS", "value"] == pytest.approx((weights * logged["click"]).mean(), abs=1e-12)


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("logging", ["random", "bts"])
def test_importance_weighting_is_that_of_the_open_bandit_pipeline(campaign, logging):
    ope = pytest.importorskip(
        "obp.ope", reason="Open Bandit Pipeline is an optional peer: pip install 'idbandits[obp]'"
    )
    items, logged = CAMPAIGNS[campaign], log(logging, campaign)
    policy = shares(log("bts" if logging == "random" else "random", campaign))
    ours = idb.evaluate(policy, logged, diagram(items), propensity="propensity_score", seed=0).frame
    chances = np.zeros((items, 3))
    for position, own in policy.items():
        for item, share in own:
            chances[item, position - 1] = share
    given = {
        "reward": logged["click"].to_numpy(), "action": logged["item_id"].to_numpy(),
        "pscore": logged["propensity_score"].to_numpy(), "position": logged["position"].to_numpy() - 1,
        "action_dist": np.broadcast_to(chances, (len(logged), items, 3)),
    }  # fmt: skip
    values = dict(zip(ours["estimator"], ours["value"], strict=True))
    for kind, name in [
        ("InverseProbabilityWeighting", "IPS"),
        ("SelfNormalizedInverseProbabilityWeighting", "self-normalised IPS"),
    ]:
        theirs = getattr(ope, kind)().estimate_policy_value(**given)
        assert values[name] == pytest.approx(theirs, abs=1e-12)
