// Runs one history until the cluster has recovered, and returns the first violation.

import type { AppRecord } from '../../src/apps/app-record.ts'
import { EVENTS_STREAM } from '../../src/nats/store-names.ts'
import { Clients } from './clients.ts'
import { Cluster } from './cluster.ts'
import type { History } from './history.ts'
import { Judge } from './judge.ts'
import type { LuaMachine } from './lua.ts'
import type { SimulatedNode } from './node.ts'
import type { Violation } from './oracle.ts'
import { type OpenParts, openParts } from './parts.ts'
import { send } from './scenario.ts'

/** After the last fault requests have to be accepted again within this time. */
const BACK_WITHIN_MS = 2000
/** The first request may take this long. */
const FIRST_ANSWER_MS = 500
/** By then an audit has corrected the counters. */
const REST_MS = 130_000
/** By then what a spool keeps until NATS has synced it was looked for, and sent again where it was lost. */
const SPOOL_REST_MS = 420_000
/** By then a new node has connected to its servers, and knows the time. */
const NEW_NODE_MS = 3000

export interface Result {
  readonly violation: Violation | null
  readonly accepted: number
  readonly replayed: number
  readonly refused: number
  readonly sent: number
  readonly stored: number
  readonly events: number
  /** The nodes' log lines. */
  readonly notices: readonly string[]
}

/** `open` builds the parts of each node. */
export async function run(history: History, lua: LuaMachine, open: OpenParts = openParts): Promise<Result> {
  const last = history.apps.length
  const probe: AppRecord = { app_key: `ak_${last}`, app_id: `app${last}`, plan: '5m', subscription: 'active' }
  const probed = { ...history, apps: [...history.apps, probe] }
  const cluster = new Cluster(probed, lua, open)
  const judge = new Judge(cluster, history)
  const clients = new Clients(cluster, judge, history.seed)
  const isOver = (): boolean => judge.violation !== null
  try {
    await live(history, { cluster, judge, clients, isOver })
  } finally {
    cluster.discard()
  }
  const { accepted, replayed, refused } = judge
  const stored = cluster.nats.streams.get(EVENTS_STREAM)?.messages.length ?? 0
  const notices = cluster.nodes.flatMap((node, at) => node.notices.map((notice) => `node ${at}: ${notice}`))
  const { sent } = clients
  return {
    violation: judge.violation,
    accepted,
    replayed,
    refused,
    sent,
    stored,
    events: cluster.world.events,
    notices,
  }
}

interface Stage {
  readonly cluster: Cluster
  readonly judge: Judge
  readonly clients: Clients
  readonly isOver: () => boolean
}

async function live(history: History, { cluster, judge, clients, isOver }: Stage): Promise<void> {
  const { world } = cluster
  for (const step of history.steps) {
    world.at(step.atMs, () => {
      if (step.kind === 'send') clients.start(step)
      else cluster.apply(step)
    })
  }
  await world.runUntil(history.endMs, isOver)
  const healedMs = cluster.heal()
  cluster.startOnDisks()
  if (!cluster.nodes.some(({ isDead, isStopping }) => !isDead && (!isStopping || cluster.machine !== null)))
    cluster.start()
  await world.runUntil(healedMs + BACK_WITHIN_MS, isOver)
  for (const node of cluster.nodes) {
    if (!node.isDead && !node.isStopping) await probe(node, history.apps.length, { cluster, judge, clients, isOver })
  }
  const outages = cluster.nodes.map(({ parts }) => parts?.redisOutages() ?? 0)
  await world.runUntil(healedMs + (history.hasSpools === true ? SPOOL_REST_MS : REST_MS), isOver)
  if (isOver()) return
  judge.judgeSpools()
  judge.judgeOutages(cluster.nodes, outages)
  judge.judgeGoodput()
  judge.judgeLosses()
  judge.judgeAlerts(history.steps)
  if (cluster.machine !== null) {
    // A folder has one process.
    for (const node of cluster.ready) node.stop()
    await world.runUntil(world.nowMs + BACK_WITHIN_MS, isOver)
  }
  const fresh = cluster.start()
  await world.runUntil(world.nowMs + NEW_NODE_MS, isOver)
  if (!fresh.isReady) return judge.reportNotRecovered('a new node is not ready')
  if (clients.waiting > 0) return judge.reportNotRecovered(`${clients.waiting} requests have no answer`)
  let isJudged = false
  void judge.judgeCounters(fresh).then(() => (isJudged = true))
  await world.runUntil(world.nowMs + NEW_NODE_MS, isOver)
  if (!isJudged) judge.reportNotRecovered('a new node does not report its usage')
  if (cluster.machine === null) return
  let isRead = false
  void judge.judgeDamage(fresh).then(() => (isRead = true))
  await world.runUntil(world.nowMs + NEW_NODE_MS, isOver)
  if (!isRead) judge.reportNotRecovered('the journal cannot be read')
}

/** A running node has to accept events again, for an app with room in its limits. */
async function probe(node: SimulatedNode, app: number, { cluster, judge, clients, isOver }: Stage): Promise<void> {
  const { world, ready } = cluster
  if (!node.isReady) return judge.reportNotRecovered(`a node is not ready ${BACK_WITHIN_MS} ms after the last fault`)
  const one = send(0, { app })
  let status = 0
  void clients.ask(one, null, ready.indexOf(node)).then((answer) => (status = answer?.status ?? -1))
  await world.runUntil(world.nowMs + FIRST_ANSWER_MS, isOver)
  if (status !== 202)
    judge.reportNotRecovered(
      `a request ${BACK_WITHIN_MS} ms after the last fault was answered ${status || 'by nobody'}`,
    )
}
