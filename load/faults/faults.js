// @ts-check
// Which faults come when, from a seed; and making them happen. An episode is one fault, or two at once, and the spell
// after it in which everything is well.

import { setTimeout as sleep } from 'node:timers/promises'

/** @typedef {import('./servers.js').Node} Node */
/** @typedef {Pick<import('../../test/support/stores.js').Store, 'kill' | 'restart' | 'freeze' | 'resume'>} Server */
/** @typedef {(typeof FAULTS)[number] | typeof OUTAGE} Kind */
/** @typedef {{ kind: (typeof FAULTS)[number], nodeIndex: number, delayMs: number, holdMs: number }} Fault */
/** @typedef {{ faults: Fault[], spellMs: number }} Episode */
/** `healedMs`: everything that the fault took away listens again. @typedef {{ kind: Kind, target: string, startedMs: number, healedMs: number }} FaultEntry */
/** @typedef {{ startedMs: number, healedMs: number, readyMs: number, endedMs: number, entries: FaultEntry[] }} EpisodeEntry */

/** A node is stopped and started again with the other version: an upgrade, or its way back. */
export const CHANGE = 'node-change'
export const FAULTS = /** @type {const} */ ([
  'node-kill',
  'node-term',
  'node-freeze',
  'redis-kill',
  'redis-freeze',
  'nats-kill',
  'nats-freeze',
  'cut',
  CHANGE,
])
/** All servers of NATS are gone for minutes; of a run of its own (outage.js). */
export const OUTAGE = 'nats-outage'
/** How long each lasts, in ms: its shortest and its longest. @type {Record<(typeof FAULTS)[number], [number, number]>} */
const HOLD_MS = {
  'node-kill': [100, 5000],
  'node-term': [100, 3000],
  'node-freeze': [200, 20_000],
  'redis-kill': [1000, 20_000],
  'redis-freeze': [200, 20_000],
  'nats-kill': [1000, 20_000],
  'nats-freeze': [200, 20_000],
  cut: [0, 0],
  [CHANGE]: [100, 3000],
}
const TWO_AT_ONCE_SHARE = 0.3
const LONG_SPELL_SHARE = 0.25
const LONG_SPELL = 3
const MOST_DELAY_MS = 3000

/** What a fault takes away: two at once must not take the same. @param {(typeof FAULTS)[number]} kind @param {number} nodeIndex */
function partOf(kind, nodeIndex) {
  return kind.startsWith('node') ? `node ${nodeIndex}` : kind.split('-')[0]
}

/**
 * Episodes without end, the same for the same seed.
 * @param {{ rng: () => number, kinds: readonly (typeof FAULTS)[number][], nodes: number, everyMs: number }} options
 * @returns {Generator<Episode, never>}
 */
export function* episodes({ rng, kinds, nodes, everyMs }) {
  for (;;) {
    const faults = [nextFault(0)]
    const second = nextFault(rng() * MOST_DELAY_MS)
    const isOther = partOf(second.kind, second.nodeIndex) !== partOf(faults[0].kind, faults[0].nodeIndex)
    if (rng() < TWO_AT_ONCE_SHARE && isOther) faults.push(second)
    const spellMs = everyMs * (0.5 + rng()) * (rng() < LONG_SPELL_SHARE ? LONG_SPELL : 1)
    yield { faults, spellMs }
  }

  /** @param {number} delayMs @returns {Fault} */
  function nextFault(delayMs) {
    const kind = kinds[Math.floor(rng() * kinds.length)]
    const [shortest, longest] = HOLD_MS[kind]
    // As many short ones as long ones, by their order of magnitude.
    const holdMs = longest === 0 ? 0 : shortest * (longest / shortest) ** rng()
    return { kind, nodeIndex: Math.floor(rng() * nodes), delayMs, holdMs }
  }
}

/** @param {string} kind */
export function isRedisFault(kind) {
  return kind.startsWith('redis')
}

/** After which a node starts. @param {string} kind */
export function isStart(kind) {
  return kind === 'node-kill' || kind === 'node-term' || kind === CHANGE
}

/**
 * What faults are made on.
 * @typedef {{ nodes: readonly Node[], redis: Server, nats: Server, connections: import('../shared/send.js').Connections,
 *   onProblem: (text: string) => void }} Ground
 */

/** Makes one fault, and heals it. @param {Fault} fault @param {Ground} ground @returns {Promise<FaultEntry>} */
export async function happen(fault, ground) {
  await sleep(fault.delayMs)
  const node = ground.nodes[fault.nodeIndex]
  const startedMs = Date.now()
  const target = await breakAndMend(fault, node, ground)
  return { kind: fault.kind, target, startedMs, healedMs: Date.now() }
}

/** @param {Fault} fault @param {Node} node @param {Ground} ground @returns {Promise<string>} what was hit */
async function breakAndMend({ kind, holdMs }, node, { redis, nats, connections, onProblem }) {
  if (kind === 'cut') {
    connections.cut(node.port)
    return `connections to ${node.name}`
  }
  const server = kind.startsWith('redis') ? redis : nats
  const isNode = kind.startsWith('node')
  if (kind.endsWith('freeze')) {
    const process = isNode ? node : server
    process.freeze()
    await sleep(holdMs)
    process.resume()
  } else {
    if (kind === 'node-term' || kind === CHANGE) await end(node, onProblem)
    else await (isNode ? node : server).kill()
    await sleep(holdMs)
    const version = kind === CHANGE ? node.change() : null
    await (isNode ? node.start() : server.restart())
    if (version !== null) return `${node.name} to ${version}`
  }
  return isNode ? node.name : kind.split('-')[0]
}

/** @param {Node} node @param {(text: string) => void} onProblem */
async function end(node, onProblem) {
  const exit = await node.terminate()
  if (exit === null) onProblem(`${node.name} had not ended in time after SIGTERM`)
  else if (exit.code !== 0) onProblem(`${node.name} ended with ${exit.code ?? exit.signal} after SIGTERM`)
}
