// @ts-check
// The clients of the crash test: they send batches small and large without pause, remember what was answered, and repeat
// what was not under its key.

import { setTimeout as sleep } from 'node:timers/promises'
import { newBatch } from '../faults/load.js'
import { Connections } from '../faults/send.js'
import { largeBody, uniformBody, uuid, variedBody } from '../payloads.js'
import { APPS } from './ground.js'

const LANES = 16
/** Longest pause of a lane between two batches: some hundred batches a second in all. */
const LONGEST_PAUSE_MS = 40
const TRY_TIMEOUT_MS = 5000
/** Where the node that died held a key in Redis, a repeat waits for some seconds: later rounds try it again. */
const REPEAT_TIMEOUT_MS = 400
/** At the end every repeat must be accepted within this time, restarts of the stores included. */
const SETTLE_MS = 60_000
const SETTLE_PAUSE_MS = 20
/** Accepted batches that are sent again each round, and among how many of the last ones they are. */
const REPLAYS = 5
const REPLAYED_OF = 300
/** Events of each body; all lanes draw from them, so that a few are large and most are not. */
const UNIFORM = [1, 1, 2, 3, 10, 100]
const VARIED = [1, 2, 5, 20, 60]
const LARGE = [1, 15, 60, 100]
/** Of the batches sent, those of `LARGE`: 5 to 490 KB. */
const LARGE_SHARE = 0.06

/** @typedef {import('../faults/load.js').Batch} Batch */
/** @typedef {import('../faults/load.js').Body} Body */
/** @typedef {import('../faults/load.js').Target} Target */
/** @typedef {import('../payloads.js').Rng} Rng */
/** @typedef {{ usual: Body[], large: Body[] }} Pool */

export class Clients {
  /** Every batch whose storing is known or asked for: keyed ones, and unkeyed ones that were answered 202. @type {Batch[]} */
  batches = []
  sent = 0
  #connections = new Connections()
  /** Keyed batches that no answer has accepted. @type {Batch[]} */
  #doubtful = []
  /** @type {Pool[]} */
  #pools
  #rng
  #violations

  /** @param {{ rng: Rng, nowMs: number, violations: import('../faults/checks.js').Violations }} options */
  constructor({ rng, nowMs, violations }) {
    this.#rng = rng
    this.#violations = violations
    this.#pools = APPS.map(({ appKey }) => makePool(rng, appKey, nowMs))
  }

  get accepted() {
    return this.batches.filter(isAccepted).length
  }

  /** Sends to all nodes until `ended`. @param {readonly Target[]} nodes @param {AbortSignal} ended */
  async load(nodes, ended) {
    const lane = async () => {
      while (!ended.aborted) {
        const batch = this.#makeBatch()
        await this.#send(batch, this.#pick(nodes), TRY_TIMEOUT_MS)
        // A batch without a key that was not answered may be stored or not, and nobody can ask.
        if (batch.key !== null || isAccepted(batch)) this.batches.push(batch)
        if (batch.key !== null && !isAccepted(batch)) this.#doubtful.push(batch)
        await sleep(this.#rng() * LONGEST_PAUSE_MS)
      }
    }
    await Promise.all(Array.from({ length: LANES }, lane))
  }

  /** Repeats each batch in doubt at most once, with some probability. @param {readonly Target[]} nodes @param {number} probability */
  async repeat(nodes, probability) {
    const tried = this.#doubtful.filter(() => this.#rng() < probability)
    const lane = async () => {
      for (let batch = tried.pop(); batch !== undefined; batch = tried.pop()) {
        await this.#send(batch, this.#pick(nodes), REPEAT_TIMEOUT_MS)
      }
    }
    await Promise.all(Array.from({ length: LANES }, lane))
    this.#doubtful = this.#doubtful.filter((batch) => !isAccepted(batch))
  }

  /** Sends some batches again that were accepted. @param {readonly Target[]} nodes */
  async replay(nodes) {
    const last = this.batches.slice(-REPLAYED_OF).filter((batch) => batch.key !== null && isAccepted(batch))
    const chosen = last.length === 0 ? [] : Array.from({ length: REPLAYS }, () => this.#pick(last))
    await Promise.all(chosen.map((batch) => this.#send(batch, this.#pick(nodes), TRY_TIMEOUT_MS)))
  }

  /** Repeats what is in doubt until all of it is accepted. @param {readonly Target[]} nodes */
  async settle(nodes) {
    const deadlineMs = Date.now() + SETTLE_MS
    while (this.#doubtful.length > 0 && Date.now() < deadlineMs) {
      await this.repeat(nodes, 1)
      await sleep(SETTLE_PAUSE_MS)
    }
    for (const { history } of this.#doubtful) this.#violations.add('repeated and never accepted', history)
  }

  stop() {
    this.#connections.stop()
  }

  /** @param {Batch} batch @param {Target} node @param {number} timeoutMs */
  async #send(batch, node, timeoutMs) {
    this.sent += 1
    const { body, key } = batch
    const result = await this.#connections.send({ port: node.port, body: body.bytes, key, timeoutMs })
    const text = result.kind === 'answer' ? `${result.status} ${result.code}` : result.kind
    batch.history += `${new Date().toISOString()} ${node.name}/${node.life} ${text}; `
    if (result.kind !== 'answer' || result.status !== 202) {
      // 401 is the answer of a node that has not read its apps yet.
      if (result.kind === 'answer' && result.status !== 503 && result.status !== 401) {
        this.#violations.add('wrong answer', batch.history)
      }
      batch.isDoubtful = true
      return
    }
    const { batchId, deduplicated, events } = result
    if (batch.batchId !== '' && batch.batchId !== batchId) this.#violations.add('two batch ids', batch.history)
    if (events !== body.events || (key === null && deduplicated)) this.#violations.add('wrong answer', batch.history)
    batch.batchId = batchId
    batch.outcome = 'accepted'
    if (deduplicated) batch.replays += 1
    else batch.fresh += 1
  }

  /** @returns {Batch} */
  #makeBatch() {
    const which = this.#rng() < 0.6 ? 0 : 1
    const { usual, large } = this.#pools[which]
    const key = APPS[which].keyed ? uuid(this.#rng) : null
    return newBatch(APPS[which], key, this.#pick(this.#rng() < LARGE_SHARE ? large : usual))
  }

  /** @template T @param {readonly T[]} list @returns {T} */
  #pick(list) {
    return list[Math.floor(this.#rng() * list.length)]
  }
}

/** @param {Batch} batch */
function isAccepted({ outcome }) {
  return outcome === 'accepted'
}

/** @param {Rng} rng @param {string} appKey @param {number} nowMs @returns {Pool} */
function makePool(rng, appKey, nowMs) {
  const bodiesOf = (/** @type {typeof uniformBody} */ make, /** @type {number[]} */ counts) =>
    counts.map((events) => bodyOf(make({ rng, appKey, events, nowMs }), events))
  return {
    usual: [...bodiesOf(uniformBody, UNIFORM), ...bodiesOf(variedBody, VARIED)],
    large: bodiesOf(largeBody, LARGE),
  }
}

/** @param {string} text @param {number} events @returns {Body} */
function bodyOf(text, events) {
  return { bytes: Buffer.from(text), events, eventsText: JSON.stringify(JSON.parse(text).events) }
}
