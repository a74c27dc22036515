CREATE TABLE experiments (
    name {text} PRIMARY KEY,
    status {text} NOT NULL,                 -- active, paused, retired
    seed {integer} NOT NULL,
    created {real} NOT NULL
);
CREATE TABLE versions (
    experiment {text} NOT NULL,
    version {integer} NOT NULL,
    diagram {text} NOT NULL,
    settings {text} NOT NULL,
    created {real} NOT NULL,
    PRIMARY KEY (experiment, version)
);
CREATE TABLE decisions (                    -- these rows never change
    n {serial},
    experiment {text} NOT NULL,
    id {text} NOT NULL,
    version {integer} NOT NULL,
    arm {text} NOT NULL,                    -- policy, holdout, caller
    learns {integer} NOT NULL,
    unit {text},
    action {text} NOT NULL,
    proposed {text},                        -- the policy's action, where another one was used
    context {text},
    allowed {text},
    at {real} NOT NULL,
    position {integer} NOT NULL,            -- block up to which the policy had learned
    seed {integer},                         -- of the policy's draw; null where it was repeated for its unit
    library {text} NOT NULL,
    digest {text} NOT NULL,                 -- of the request
    UNIQUE (id, experiment)
);
CREATE INDEX decisions_order ON decisions (experiment, n);
CREATE INDEX decisions_unit ON decisions (experiment, unit, n) WHERE unit IS NOT NULL;
CREATE TABLE outcomes (                     -- what became of each decision
    n {integer} PRIMARY KEY,                -- of the decision
    experiment {text} NOT NULL,
    due {real},                             -- when the round is to be closed next; null: nothing to do
    shown {real},                           -- null: deferred, and not shown yet
    complete {integer} NOT NULL DEFAULT 0,  -- 1: the caller said that nothing more will come
    state {text} NOT NULL,                  -- open, deferred, closed, impossible
    events {text},                          -- reported events in the order of their arrival; null: none
    learned {text},                         -- observation of the latest step
    reward {real},                          -- of that observation; null where it is not observed
    revision {integer} NOT NULL DEFAULT 0,
    edition {integer} NOT NULL DEFAULT 0    -- number of changes of this row
);
CREATE INDEX outcomes_due ON outcomes (due, n, experiment, state) WHERE due IS NOT NULL;
CREATE INDEX outcomes_waiting ON outcomes (experiment, state) WHERE state <> 'open' AND state <> 'closed';
CREATE VIEW decisions_with_outcomes AS
    SELECT d.n, d.experiment, d.id, d.version, d.arm, d.learns, d.unit, d.action, d.proposed, d.context, d.allowed,
        d.at, d.position, d.seed, d.library, d.digest, o.due, o.shown, o.complete, o.state, o.events, o.learned,
        o.reward, o.revision
    FROM decisions AS d JOIN outcomes AS o ON o.n = d.n;
CREATE TABLE steps (
    n {serial},
    block {integer} NOT NULL,               -- steps of one transaction; readers follow (block, n)
    experiment {text} NOT NULL,
    kind {text} NOT NULL,                   -- version, round
    version {integer} NOT NULL,
    decision {integer},
    before {text},                          -- observation that was learned; null: none yet
    after {text},                           -- observation to learn; null: remove the round
    earlier {real},                         -- reward of `before`
    reward {real}                           -- reward of `after`
);
CREATE INDEX steps_order ON steps (experiment, block, n);
CREATE TABLE epochs (
    base {integer} PRIMARY KEY               -- number before the first block of a server (PostgreSQL)
);
CREATE TABLE snapshots (
    experiment {text} NOT NULL,
    block {integer} NOT NULL,
    library {text} NOT NULL,
    digest {text} NOT NULL,
    content {bytes} NOT NULL,
    created {real} NOT NULL,
    PRIMARY KEY (experiment, block)
);
CREATE TABLE letters (
    n {serial},
    experiment {text} NOT NULL,
    received {real} NOT NULL,
    reason {text} NOT NULL,
    message {text} NOT NULL,
    body {text} NOT NULL,
    replayed {real}
);
CREATE TABLE audit (
    n {serial},
    at {real} NOT NULL,
    who {text} NOT NULL,
    experiment {text},
    what {text} NOT NULL,
    detail {text}
);
CREATE TABLE tokens (
    digest {text} PRIMARY KEY,
    name {text} NOT NULL UNIQUE,
    scopes {text} NOT NULL,
    created {real} NOT NULL,
    revoked {real}
);
