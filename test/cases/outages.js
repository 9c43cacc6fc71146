// @ts-check
// The outages that tests bring about, and what clients see of each: docs/faults.md is printed from here (`npm run docs:faults`), and the
// tests `outages-redis` and `outages-nats` take what they bring about from here (`casesOf`).

/**
 * @typedef {object} Outage
 * @property {string} part
 * @property {string} fault
 * @property {string} answer what clients get meanwhile
 * @property {string} until
 * @property {string} effect of `EFFECTS`, or none, or in words
 * @property {readonly string[]} tests by the name of their file; `simulator: ` and a kind of history, or a scenario
 * @property {readonly string[]} [cases] of the part's test of outages
 */

/** @type {readonly Outage[]} */
export const OUTAGES = [
  {
    part: 'Redis',
    fault: 'killed, back with its data',
    answer: "by the node's share of what was left",
    until: 'two probes in a row are answered: within a second of its return',
    effect: 'one limit more',
    tests: ['outages-redis', 'simulator: redis'],
    cases: ['killed'],
  },
  {
    part: 'Redis',
    fault: 'frozen, or slower than 250 ms a call',
    answer: 'the same, once three calls in a row had no answer in 250 ms; until then requests wait',
    until: 'the same',
    effect: 'one limit more',
    tests: ['outages-redis', 'simulator: redis'],
    cases: ['frozen', 'delayed'],
  },
  {
    part: 'Redis',
    fault: 'one answer slow',
    answer:
      'the request waits for it, and is answered 503 (`redis_slow`) after 0.75 s; Redis stays up. It is charged once: what a later answer took is given back',
    until: 'it answers',
    effect: 'none',
    tests: ['shared-admission', 'redis-connection', 'simulator: redis-late'],
  },
  {
    part: 'Redis',
    fault: 'connections cut',
    answer: 'as killed',
    until: 'the same',
    effect: 'one limit more',
    tests: ['outages-redis', 'simulator: redis'],
    cases: ['cut'],
  },
  {
    part: 'Redis',
    fault: 'away for over a minute',
    answer: 'as killed; in each new minute a node has the limit ÷ the nodes it last saw',
    until: 'the same',
    effect: 'one limit more',
    tests: ['outages-minute'],
  },
  {
    part: 'Redis',
    fault: 'back empty, rolled back, or another one',
    answer: "by the node's share of what was left, for the apps of the partitions that Redis has forgotten",
    until: 'the audit has written the sums again, and each node what it took in open minutes: two to five seconds',
    effect: 'one limit of each window',
    tests: [
      'outages-redis',
      'redis-rolled-back',
      'audit',
      'redis-lost',
      'simulator: redis-rolled-back',
      'simulator: redis-forgets',
      'simulator: older-owner-of-redis',
    ],
    cases: ['emptied'],
  },
  {
    part: 'Redis',
    fault:
      'killed -9 with append-only file, snapshots or nothing; a master of a cluster, or a primary whose replica lags, failed over',
    answer: 'as killed',
    until: 'the same',
    effect: 'one limit more, one limit of each window',
    tests: ['redis-lost'],
  },
  {
    part: 'Redis',
    fault:
      'a cluster moves a hash slot, by hand or by `redis-cli --cluster reshard`, or leaves it open (`TRYAGAIN`), or does not serve it (`CLUSTERDOWN`)',
    answer: "202 by the node's share of what was left, for the apps of that slot's partition alone",
    until: 'a call with the keys of the one that failed succeeds; one is made each second',
    effect: 'one limit more',
    tests: ['redis-cluster', 'shared-admission'],
  },
  {
    part: 'Redis',
    fault: 'a cluster fails over, by hand or since a master was killed',
    answer: 'as killed, until the cluster has a master for each slot',
    until: 'the same',
    effect: 'one limit more',
    tests: ['redis-cluster', 'redis-lost'],
  },
  {
    part: 'Redis',
    fault: 'answers something else than it was asked: too short, one answer too many, of another type, no exact number',
    answer: 'as killed: the connection is dropped, and nothing of the answer is used',
    until: 'its answers are right again, at most two seconds later',
    effect: 'one limit more',
    tests: ['redis-replies', 'simulator: redis'],
  },
  {
    part: 'Redis',
    fault: 'a replica, out of memory, refuses scripts, takes no more connections (`maxclients`)',
    answer: 'as killed, with its reason in the log and `/readyz?verbose`',
    until: 'it takes writes again',
    effect: 'one limit more',
    tests: ['redis-connection'],
  },
  {
    part: 'Redis',
    fault: 'away at a start',
    answer: '`/readyz` 503; 202 by the whole limit, as if it were the only node, counted from zero',
    until: 'it has been reached once',
    effect: 'one limit more, one limit a node',
    tests: ['outages-redis'],
  },
  {
    part: 'NATS',
    fault: 'slow',
    answer: '202 for what it can acknowledge; 503 (`nats_slow`) at once for the rest',
    until: 'it is fast again',
    effect: 'none',
    tests: ['jetstream-slow', 'simulator: slow-nats'],
  },
  {
    part: 'NATS',
    fault: 'killed, back with its data',
    answer:
      '503 (`nats_away`): after 2 s at most, and at once after the first 2 s, but for one batch a second, which tries it; replays, 400, 401, 402 and 429 as usual',
    until: 'within 2 s of its return',
    effect: 'stored twice without a key',
    tests: ['outages-nats', 'simulator: nats', 'simulator: nats-away'],
    cases: ['killed'],
  },
  {
    part: 'NATS',
    fault: 'frozen for seconds, or acknowledges after more than 2 s',
    answer: 'the same; what was sent is in doubt (`in_doubt`), and little more is sent',
    until: 'the next acknowledgement in time',
    effect: 'stored twice without a key',
    tests: ['outages-nats', 'simulator: nats', 'simulator: acks-just-late', 'simulator: key-in-doubt', 'key-in-doubt'],
    cases: ['frozen', 'delayed'],
  },
  {
    part: 'NATS',
    fault: 'frozen until connections break, or cut',
    answer: 'as killed',
    until: 'within 2 s of its return',
    effect: 'stored twice without a key',
    tests: ['outages-nats', 'simulator: nats'],
    cases: ['frozen-long', 'cut'],
  },
  {
    part: 'NATS',
    fault: 'away for over a minute',
    answer: 'as killed',
    until: 'within 2 s of its return',
    effect: 'stored twice without a key',
    tests: ['outages-minute'],
  },
  {
    part: 'NATS',
    fault: 'stream full',
    answer: '503 (`stream_full`) at once; `sluice_nats_up` stays 1, since others may read; `sluice check` fails',
    until: 'there is room: age, a purge or a larger limit',
    effect: 'stored twice without a key',
    tests: ['outages-nats', 'simulator: nats'],
    cases: ['full'],
  },
  {
    part: 'NATS',
    fault: 'cluster loses its leader',
    answer: '503 (`nats_away`, `in_doubt`) for what needs it, for some seconds',
    until: 'a new leader',
    effect: 'stored twice without a key',
    tests: ['nats-cluster', 'simulator: nats'],
  },
  {
    part: 'NATS',
    fault: 'one server leaves, in lame duck mode',
    answer: '202; at most 503 (`nats_away`, `in_doubt`) while its streams get new leaders',
    until: 'nodes are connected to another one of `NATS_URL`: at once when it closes their connections',
    effect: 'stored twice without a key',
    tests: ['nats-lame-duck'],
  },
  {
    part: 'NATS',
    fault: 'one server is cut off from its cluster',
    answer: '503 (`nats_away`, `in_doubt`) from the nodes that are connected to it',
    until: 'they leave it for another one of `NATS_URL`, some ten seconds later',
    effect: 'stored twice without a key',
    tests: ['nats-connection'],
  },
  {
    part: 'NATS',
    fault: 'calls a batch a duplicate of another one, or of a message that is gone',
    answer: '503 (`in_doubt`): the batch may not be stored',
    until: 'the duplicate window of 600 s is over',
    effect: 'none',
    tests: ['jetstream'],
  },
  {
    part: 'NATS',
    fault: 'one server lost the end of its stream (a power cut)',
    answer: 'as killed; `SluiceStoreLost`',
    until: 'within 2 s of its return',
    effect: 'lost with the store',
    tests: ['installation', 'simulator: nats'],
  },
  {
    part: 'NATS',
    fault: 'stream deleted or emptied',
    answer: '202, up to half a second later: a deleted stream is made again; `SluiceStoreLost`',
    until: '',
    effect: 'lost with the store',
    tests: ['outages-nats', 'installation'],
    cases: ['deleted'],
  },
  {
    part: 'NATS',
    fault: 'back empty',
    answer:
      'as killed; then the stream is made again; apps stay in force on nodes that know them; a node that starts answers 503 (`apps_unread`) until they are imported; `SluiceStoreLost`',
    until: 'within 2 s of its return',
    effect: 'lost with the store',
    tests: ['outages-nats', 'bucket-apps', 'installation'],
    cases: ['emptied'],
  },
  {
    part: 'NATS',
    fault: 'away at a start',
    answer:
      '`/readyz` 503; 503 (`apps_unread`), since no app record is known; with `SLUICE_APPS_FILE` 401 and 402 as usual, 503 for what needs the queue',
    until: 'it has been reached once',
    effect: 'stored twice without a key',
    tests: ['outages-nats'],
  },
  {
    part: 'NATS',
    fault: "a node's connection stalls, and what it sent arrives after its minute was closed",
    answer: '503 (`in_doubt`) from that node; other nodes as usual',
    until: 'it answers, or the connection is given up',
    effect: 'none: it is not stored',
    tests: ['key-in-doubt', 'simulator: late-messages'],
  },
  {
    part: 'NATS',
    fault: 'away from one node of several',
    answer:
      '503 from that node; a second request with the same key on another node waits for it, and is then handled itself',
    until: 'that node reaches it',
    effect: 'stored twice without a key',
    tests: ['cluster'],
  },
  {
    part: 'NATS',
    fault: 'the audit cannot read',
    answer: 'as usual; counters stay too high by what was given up',
    until: 'it reads again',
    effect: 'counted too high',
    tests: ['simulator: nats'],
  },
  {
    part: 'NATS, with a spool',
    fault: 'killed, frozen, slow, cut off, full or without a leader, for any time that the disk holds',
    answer: "202, from this node's disk; its first requests wait up to 0.5 s",
    until: 'NATS takes one batch: within 0.5 s; the spool is sent meanwhile',
    effect: 'late on the stream',
    tests: ['spool', 'spool-service', 'simulator: spool'],
  },
  {
    part: 'NATS, with a spool',
    fault: "the spool's disk is full, or fails",
    answer: '503 (`spool_full`, `journal_error`)',
    until: 'there is room, or a write succeeds',
    effect: 'stored twice without a key',
    tests: ['spool'],
  },
  {
    part: 'NATS, with a spool',
    fault: 'away, and a node is killed, with its folder kept',
    answer: 'none from the others; the next process on that folder sends what it holds',
    until: 'it is started with its folder, or `sluice spool drain` has run',
    effect: 'late on the stream',
    tests: ['spool-service', 'cli-spool', 'simulator: spool'],
  },
  {
    part: 'NATS, with a spool',
    fault: 'away, and Redis away or emptied',
    answer: "202, by the node's share of what was left",
    until: 'both are back',
    effect: 'one limit more, one limit of each window, late on the stream',
    tests: ['simulator: spool'],
  },
  {
    part: 'NATS, with a spool',
    fault: 'back, without what it had acknowledged',
    answer: '202; what the node still keeps is sent again where it is missing',
    until: 'it is sent',
    effect: 'lost with the store, for what no node keeps',
    tests: ['spool', 'simulator: spool'],
  },
  {
    part: 'NATS, with a spool',
    fault: 'away at a start',
    answer: '202, once Redis answers, by the app records that the folder keeps; without any 503 (`apps_unread`)',
    until: 'it has been reached once',
    effect: 'late on the stream',
    tests: ['spool-service'],
  },
  {
    part: 'NATS, with a spool',
    fault: 'the folder is lost, or damaged',
    answer: 'as usual',
    until: '',
    effect:
      'what it held and NATS did not is lost; what is damaged is named (`sluice spool verify`), counted and passed over',
    tests: ['spool', 'cli-spool'],
  },
  {
    part: 'clocks',
    fault: "a node's is hours wrong, with or without an outage of Redis",
    answer: 'as usual',
    until: 'its clock is right again; until then other nodes audit',
    effect: 'none',
    tests: ['simulator/clocks'],
  },
  {
    part: 'clocks',
    fault: "Redis's is ahead, and right again",
    answer: 'as usual',
    until: 'the audit has read what was taken meanwhile: some seconds',
    effect: 'one limit of each window',
    tests: ['simulator/clocks'],
  },
  {
    part: 'clocks',
    fault: "Redis's is behind",
    answer: 'as usual; windows go by it',
    until: 'it is right again',
    effect: 'none',
    tests: ['simulator/clocks'],
  },
  {
    part: 'clocks',
    fault: 'no two of node, Redis and NATS agree',
    answer: 'as usual; no minute is closed',
    until: 'two agree',
    effect: 'counted too high',
    tests: ['unit/audit/clocks'],
  },
  {
    part: 'NATS and audit',
    fault: "the auditor's NATS server is cut off from the others, or behind",
    answer: 'as usual',
    until: "it has what the stream's leader has, or another node audits",
    effect: 'counted too high',
    tests: ['audit-proof', 'simulator: servers'],
  },
  {
    part: 'NATS and audit',
    fault: '`SLUICE_COUNTS` lost or unreadable',
    answer: 'as usual',
    until: 'the audit has the sums from Redis and the stream: some seconds',
    effect: "with Redis's sums none, else lost with the store",
    tests: ['audit-recovery'],
  },
  {
    part: 'a node',
    fault: 'stopped by SIGTERM',
    answer: 'every request that reaches it is answered; its unspent tokens go back',
    until: 'the end of its drain',
    effect: 'none',
    tests: ['cluster'],
  },
  {
    part: 'a node',
    fault: 'killed',
    answer: 'none; its keys are free again in 7 s',
    until: 'the audit has closed its last minute: two minutes at most',
    effect: 'counted too high',
    tests: ['audit', 'simulator: crashes'],
  },
]

/** @type {readonly { name: string, may: string, never: string }[]} */
export const EFFECTS = [
  {
    name: 'one limit more',
    may: "a limit is exceeded by what other nodes took since this node's last reply about the app: at most one limit more for each fault",
    never:
      'an accepted event is uncounted two minutes after Redis is back (but see "counted too high"); a key is accepted twice',
  },
  {
    name: 'one limit of each window',
    may: 'at most one limit more of each window: what is taken before the next call of a node that knew (a second at most), and what nodes that have ended took in open minutes',
    never:
      'what a node knows to have been counted is given out again; a counter stays wrong for more than two minutes, unless the audit cannot read',
  },
  {
    name: 'stored twice without a key',
    may: 'a batch **without** a key that was in doubt and is sent again is stored and charged twice; one that is not sent again is stored and charged without a 202. What NATS cannot be asked about for ten minutes, or a killed node had sent, is counted in `sluice_doubt_unsettled_total`: its windows may hold more than their limits',
    never:
      'a 202 that is not stored; a batch with a key stored twice in 300 s; a batch charged twice, or its retry refused for what the batch itself took',
  },
  {
    name: 'lost with the store',
    may: 'what was stored is lost with the store. Lost events of minutes that the audit had closed stay charged until their day and cycle end; if the bucket of counts is lost with it, counters begin at zero',
    never: 'a batch accepted before is accepted again in 300 s, while a node or Redis knows its key',
  },
  {
    name: 'counted too high',
    may: 'counted too high for up to two minutes: unspent tokens of a node, a batch in doubt (up to ten minutes, while NATS cannot be asked about it)',
    never: 'counted too low, except for what a node took without Redis in the last two minutes before it died',
  },
  {
    name: 'one limit a node',
    may: 'one limit more for each node that starts while Redis is away: N such nodes allow N limits. They are not ready, so send them nothing. A node that was ready for less than a second counts as one',
    never: 'as for "one limit more"',
  },
  {
    name: 'late on the stream',
    may: '`received_at` lies up to as long before the message as the outage lasted. A disk that is lost takes with it what it held. Where a node is gone for two minutes with batches on its disk, an app may exceed a limit by these: they are charged to their day when they come',
    never:
      'a 202 of the spool that is lost while its disk is there; one stored twice; a limit that nodes which run exceed together',
  },
]

/** What a part's test of outages brings about. @param {string} part */
export function casesOf(part) {
  return OUTAGES.filter((outage) => outage.part === part).flatMap(({ cases = [], effect }) =>
    cases.map((name) => ({ name, isLoss: effect === 'lost with the store' })),
  )
}
