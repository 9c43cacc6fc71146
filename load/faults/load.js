// @ts-check
// A steady load, sent the way a good SDK sends: a key for each batch, and tries under the same key until it is
// accepted or too old. Remembers of each batch what the checks at the end ask for.

import { createRng, uuid, variedBody } from '../payloads.js'

const TICK_MS = 10
/** Tries of one batch end after this long: well before its key is forgotten, 300 s after it was accepted. */
const RETRY_MS = 120_000
const TRY_TIMEOUT_MS = 5000
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000
/** Batches without an outcome; past this, new ones are left out and counted. */
const MAX_UNDER_WAY = 30_000
const MAX_EVENTS = 5
const BODIES_PER_COUNT = 8
/** Shares of all keyed batches that are sent in ways that only retries and hurry produce. */
const TWIN_SHARE = 0.02
const REPLAY_SHARE = 0.02
const HASTY_SHARE = 0.01
const HASTY_TIMEOUT_MS = 15
const LONGEST_REPLAY_PAUSE_MS = 60_000
/** Of the batches refused by a limit, those whose client waits for the window rather than dropping them. */
const OBEDIENT_SHARE = 0.15

/** @typedef {{ appId: string, appKey: string, share: number, keyed: boolean }} LoadedApp */
/** @typedef {{ bytes: Buffer, events: number, eventsText: string }} Body */
/**
 * @typedef {object} Batch
 * @property {LoadedApp} app
 * @property {string | null} key
 * @property {Body} body
 * @property {number} startedAtMs
 * @property {string} batchId '' until an answer has named it
 * @property {'pending' | 'accepted' | 'dropped' | 'gave up'} outcome
 * @property {number} fresh 202s that were not marked as replays
 * @property {number} replays
 * @property {boolean} isDoubtful a try ended without saying whether the batch was stored
 * @property {string} history every answer, with its time and node
 */
/** @typedef {{ name: string, port: number, life: number }} Target */

/**
 * @typedef {{ startedAtMs: number, endedAtMs: number, node: string, what: string, knewApp: boolean, batch: Batch }} FailedTry
 * `knewApp`: this life of the node had answered for the app before
 */

/** @param {string} text @param {number} events @returns {Body} */
export function bodyOf(text, events) {
  return { bytes: Buffer.from(text), events, eventsText: JSON.stringify(JSON.parse(text).events) }
}

/** A batch of which nothing has been heard. @param {LoadedApp} app @param {string | null} key @param {Body} body @returns {Batch} */
function newBatch(app, key, body) {
  return {
    app,
    key,
    body,
    startedAtMs: Date.now(),
    batchId: '',
    outcome: 'pending',
    fresh: 0,
    replays: 0,
    isDoubtful: false,
    history: '',
  }
}

export class Load {
  /** @type {Batch[]} */
  batches = []
  counts = { tries: 0, retries: 0, accepted: 0, replays: 0, overloaded: 0, limited: 0, timeouts: 0, broken: 0 }
  leftOut = 0
  /** What goes on, under which the latencies of its answers of 202 are kept; '': they are not. */
  phase = ''
  /** In ms. @type {Map<string, number[]>} */
  latencies = new Map()
  /** What no answer may say. @type {string[]} */
  wrongAnswers = []
  /** Repeats of accepted batches that a limit refused: only a node that cannot ask Redis may not know them. @type {{ atMs: number, batch: Batch }[]} */
  refusedReplays = []
  /** @type {FailedTry[]} */
  failedTries = []
  #underWay = 0
  #due = 0
  #startedAtMs = 0
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #stopped = false
  /** Apps that each life of a node has answered for: it has them in its cache. @type {Set<string>} */
  #known = new Set()

  /**
   * @param {{ apps: readonly LoadedApp[], targets: readonly Target[], perSecond: number, seed: number,
   *   connections: import('../shared/send.js').Connections, makeBodies?: typeof fewEvents, longestReplayPauseMs?: number,
   *   maxUnderWay?: number }} options
   *   `makeBodies`: those of an app, made ahead, so that the load costs the machine little
   */
  constructor({ apps, targets, perSecond, seed, connections, makeBodies = fewEvents, ...rest }) {
    this.apps = apps
    this.targets = targets
    this.perSecond = perSecond
    this.connections = connections
    this.rng = createRng(seed)
    this.maxUnderWay = rest.maxUnderWay ?? MAX_UNDER_WAY
    this.longestReplayPauseMs = rest.longestReplayPauseMs ?? LONGEST_REPLAY_PAUSE_MS
    this.bodies = new Map(apps.map((app) => [app, makeBodies(this.rng, app)]))
  }

  get underWay() {
    return this.#underWay
  }

  start() {
    this.#startedAtMs = performance.now()
    this.#timer = setInterval(() => this.#tick(), TICK_MS)
  }

  /** New batches come no more; those under way go on. */
  stop() {
    this.#stopped = true
    clearInterval(this.#timer)
  }

  #tick() {
    const due = Math.floor(((performance.now() - this.#startedAtMs) / 1000) * this.perSecond)
    for (; this.#due < due; this.#due++) {
      if (this.#underWay >= this.maxUnderWay) this.leftOut += 1
      else this.#begin()
    }
  }

  #begin() {
    const app = this.#pickApp()
    const bodies = /** @type {Body[]} */ (this.bodies.get(app))
    const batch = newBatch(app, app.keyed ? uuid(this.rng) : null, bodies[this.#pick(bodies.length)])
    this.batches.push(batch)
    void this.#follow(batch)
    if (!app.keyed) return
    const chance = this.rng()
    if (chance < TWIN_SHARE) void this.#follow(batch)
    else if (chance < TWIN_SHARE + REPLAY_SHARE) this.#replayLater(batch)
  }

  /** Sends a batch until its client is content or gives up. @param {Batch} batch */
  async #follow(batch) {
    this.#underWay += 1
    const isObedient = this.rng() < OBEDIENT_SHARE
    let timeoutMs = this.rng() < HASTY_SHARE ? HASTY_TIMEOUT_MS : TRY_TIMEOUT_MS
    let target = this.targets[this.#pick(this.targets.length)]
    for (let attempt = 1; ; attempt++) {
      const result = await this.#try(batch, target, timeoutMs)
      if (result.kind === 'answer' && result.status === 202) break
      const isLimit = result.kind === 'answer' && result.status === 429
      if (batch.key === null || (isLimit && !isObedient)) {
        this.#settle(batch, 'dropped')
        break
      }
      const pauseMs = this.#pauseMs(result, attempt)
      if (Date.now() + pauseMs - batch.startedAtMs > RETRY_MS) {
        this.#settle(batch, 'gave up')
        break
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
      this.counts.retries += 1
      timeoutMs = TRY_TIMEOUT_MS
      // Another node more often than not.
      if (this.rng() < 0.75) target = this.targets[this.#pick(this.targets.length)]
    }
    this.#underWay -= 1
  }

  /** A client that never saw its answer, and asks again when it likes. @param {Batch} batch */
  #replayLater(batch) {
    const pauseMs = this.rng() * this.longestReplayPauseMs
    setTimeout(() => {
      if (batch.outcome === 'accepted' && !this.#stopped) void this.#follow(batch)
    }, pauseMs).unref()
  }

  /** @param {Batch} batch @param {'dropped' | 'gave up'} outcome */
  #settle(batch, outcome) {
    // A twin may have been accepted.
    if (batch.outcome === 'pending') batch.outcome = outcome
  }

  /** @param {import('../shared/send.js').Result} result @param {number} attempt */
  #pauseMs(result, attempt) {
    const wanted = result.kind === 'answer' ? result.retryAfterSeconds * 1000 : 0
    const backoffMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt) * (0.5 + this.rng() / 2)
    // Half of the clients take Retry-After of a 503 at its word, the others only their own pauses; at a limit all do.
    if (result.kind === 'answer' && result.status === 503 && this.rng() < 0.5) return backoffMs
    return Math.max(wanted, backoffMs)
  }

  /** @param {Batch} batch @param {Target} target @param {number} timeoutMs */
  async #try(batch, target, timeoutMs) {
    const startedAtMs = Date.now()
    const life = `${target.name}.${target.life}`
    const knows = `${life} ${batch.app.appId}`
    const knewApp = this.#known.has(knows)
    const wasAccepted = batch.outcome === 'accepted'
    const { phase } = this
    const sentAtMs = performance.now()
    this.counts.tries += 1
    const result = await this.connections.send({ port: target.port, body: batch.body.bytes, key: batch.key, timeoutMs })
    const what = result.kind === 'answer' ? describe(result) : result.kind === 'error' ? result.code : 'timeout'
    batch.history += `${new Date(startedAtMs).toISOString().slice(11, 23)} +${Date.now() - startedAtMs}ms ${life} ${what}; `
    const isFailed = result.kind !== 'answer' || result.status === 503
    if (isFailed) {
      // A refused connection carried nothing.
      if (what !== 'ECONNREFUSED') batch.isDoubtful = true
      if (timeoutMs === TRY_TIMEOUT_MS) {
        this.failedTries.push({ startedAtMs, endedAtMs: Date.now(), node: target.name, what, knewApp, batch })
      }
    }
    if (result.kind === 'timeout') this.counts.timeouts += 1
    else if (result.kind === 'error') this.counts.broken += 1
    else if (result.status === 503) this.counts.overloaded += 1
    else if (result.status === 429) {
      this.counts.limited += 1
      if (wasAccepted) this.refusedReplays.push({ atMs: Date.now(), batch })
    } else if (result.status !== 202) this.wrongAnswers.push(`${what}: ${batch.history}`)
    if (result.kind === 'answer' && result.status !== 503) this.#known.add(knows)
    if (result.kind === 'answer' && result.status === 202) {
      if (phase !== '') this.#tookMs(phase, performance.now() - sentAtMs)
      this.#accepted(batch, result, wasAccepted)
    }
    return result
  }

  /** @param {string} phase @param {number} ms */
  #tookMs(phase, ms) {
    const latencies = this.latencies.get(phase) ?? []
    this.latencies.set(phase, latencies)
    latencies.push(ms)
  }

  /** @param {Batch} batch @param {import('../shared/send.js').Result & { kind: 'answer' }} answer @param {boolean} wasAccepted */
  #accepted(batch, answer, wasAccepted) {
    this.counts.accepted += 1
    if (answer.deduplicated) {
      batch.replays += 1
      this.counts.replays += 1
    } else {
      batch.fresh += 1
      if (wasAccepted) this.wrongAnswers.push(`a replay was taken for new: ${batch.history}`)
    }
    if (answer.events !== batch.body.events) this.wrongAnswers.push(`wrong number of events: ${batch.history}`)
    if (batch.batchId !== '' && batch.batchId !== answer.batchId) {
      this.wrongAnswers.push(`two batch ids, ${batch.batchId} and ${answer.batchId}: ${batch.history}`)
    }
    batch.batchId = answer.batchId
    batch.outcome = 'accepted'
  }

  #pickApp() {
    let left = this.rng()
    for (const app of this.apps) {
      left -= app.share
      if (left < 0) return app
    }
    return this.apps[0]
  }

  /** @param {number} count */
  #pick(count) {
    return Math.floor(this.rng() * count)
  }
}

/** @param {import('../payloads.js').Rng} rng @param {LoadedApp} app @returns {Body[]} */
function fewEvents(rng, { appKey }) {
  return Array.from({ length: MAX_EVENTS * BODIES_PER_COUNT }, (_, index) => {
    const events = 1 + (index % MAX_EVENTS)
    return bodyOf(variedBody({ rng, appKey, events, nowMs: Date.now() }), events)
  })
}

/** @param {import('../shared/send.js').Result & { kind: 'answer' }} answer */
function describe({ status, code, deduplicated }) {
  return `${status}${code === '' ? '' : ` ${code}`}${deduplicated ? ' deduplicated' : ''}`
}
