// @ts-check
// One run of the fuzzer: hostile clients by the dozen, honest ones beside them, a watch on the metrics, and in the end
// the journal. What does not hold is reported with the bytes of the client that showed it.

import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { percentilesOf } from '../bench/percentiles.js'
import { cameTrue } from '../shared/until.js'
import { play } from './client.js'
import { journalFaults } from './journal.js'
import { OverloadTally } from './overload.js'
import { scriptOf } from './script.js'
import { HONEST_KEY, RING_MB, startService } from './service.js'

/** @typedef {import('./service.js').FuzzedService} FuzzedService */
/** @typedef {import('./honest.js').HonestReport} HonestReport */
/** @typedef {{ what: string, client: number | null }} Fault */
/**
 * @typedef {object} RunOptions
 * @property {number} seed
 * @property {number} minutes
 * @property {string} node
 * @property {string} folder empty, and the run's own
 * @property {number} [clients] at the same time
 * @property {number} [maxClients] in all
 * @property {number} [onlyClient] this client's script alone, again and again
 * @property {(line: string) => void} [progress]
 */
/**
 * @typedef {object} RunReport
 * @property {readonly Fault[]} faults
 * @property {number} clients
 * @property {Readonly<Record<string, number>>} kinds clients of each kind
 * @property {Readonly<Record<string, number>>} heard answers by status
 * @property {Readonly<Record<string, number>>} reasons of the 503s, as the service counted them
 * @property {{ requests: number, p50Ms: number, p99Ms: number, mostMs: number }} honest
 * @property {{ atStartMb: number, mostMb: number, boundMb: number }} memory
 * @property {number} received requests that the service counted
 */

const CLIENTS = 24
const MAX_CLIENTS = 5_000_000
/** With so many the run ends. */
const MAX_FAULTS = 10
const MOST_TOLD = 60
const PROGRESS_MS = 10_000
const SCRAPE_MS = 500
const HONEST_START_MS = 3000
const SETTLE_TIMEOUT_MS = 20_000
const EXIT_NEWS_MS = 500
const OUTPUT_TAIL_CHARACTERS = 3000
/** Beside the ring and what gathers beside it (a quarter of it): heaps of the threads, sockets, journal, keys. */
const MEMORY_MARGIN_MB = 160
const GATHERING_SHARE = 1.25
const BYTES_PER_MB = 1024 * 1024
const HOUR_MS = 3_600_000
/** Modules of Node 22, the first whose build of the HTTP engine takes a request line in pieces. */
const FIRST_MODULES_OF_NEW_ENGINE = 127

/** @param {RunOptions} options @returns {Promise<RunReport>} */
export async function fuzz(options) {
  const service = await startService(options)
  const run = new Run(service, options)
  return run.toItsEnd()
}

class Run {
  /** @type {Fault[]} */
  #faults = []
  /** @type {Map<number, import('./script.js').Script>} */
  #playing = new Map()
  /** @type {Record<string, number>} */
  #kinds = {}
  /** @type {Record<string, number>} */
  #heard = {}
  /** Ids that a 202 named. @type {Set<string>} */
  #accepted = new Set()
  #next = 0
  #endMs
  #mostBytes = 0
  #startBytes = 0
  #received = 0
  #overloads = new OverloadTally()
  /** @type {Record<string, number>} */
  #reasons = {}

  /** @param {FuzzedService} service @param {RunOptions} options */
  constructor(service, options) {
    this.service = service
    this.options = options
    this.ground = {
      seed: options.seed,
      nowMs: Date.now() - HOUR_MS,
      splitsRequestLine: modulesOf(options.node) >= FIRST_MODULES_OF_NEW_ENGINE,
    }
    this.#endMs = performance.now() + options.minutes * 60_000
  }

  async toItsEnd() {
    const honest = startHonest(this.service.port)
    await sleep(HONEST_START_MS)
    this.#startBytes = (await this.service.metrics())['process_resident_memory_bytes']
    this.#endMs = performance.now() + this.options.minutes * 60_000
    const slots = Array.from({ length: this.options.clients ?? CLIENTS }, () => this.#sendClients())
    await Promise.all([...slots, this.#watch()])
    const report = await honest.stop()
    if (this.service.exit() === null) {
      for (const what of report.faults) this.#add(what, null)
      await this.#settle(report)
    } else {
      await this.#tellDeath()
    }
    return this.#report(report)
  }

  get #isOver() {
    return performance.now() > this.#endMs || this.#faults.length >= MAX_FAULTS || this.service.exit() !== null
  }

  async #sendClients() {
    const { onlyClient, maxClients = MAX_CLIENTS } = this.options
    while (!this.#isOver && this.#next < maxClients) {
      const turn = this.#next++
      const client = onlyClient ?? turn
      const script = scriptOf({ ...this.ground, round: onlyClient === undefined ? 0 : turn }, client)
      this.#kinds[script.kind] = (this.#kinds[script.kind] ?? 0) + 1
      this.#playing.set(turn, script)
      const { fault, answers } = await play(script, this.service).catch((/** @type {Error} */ error) => {
        return { fault: `the check itself failed: ${error.message}`, answers: [] }
      })
      for (const { status, headers, json } of answers) {
        this.#heard[status] = (this.#heard[status] ?? 0) + 1
        if (status === 202 && json?.events !== 0) this.#accepted.add(headers['x-batch-id'])
      }
      if (mayWait(script)) this.#overloads.add(answers)
      // A connection that broke may have done so with the whole process, of which word comes a moment later.
      if (fault !== null) await sleep(EXIT_NEWS_MS)
      if (this.service.exit() !== null) return
      this.#playing.delete(turn)
      if (fault === null) continue
      this.#add(`${script.kind}: ${fault}`, client)
      await this.#write(client, script)
    }
  }

  async #watch() {
    const { progress = () => {} } = this.options
    for (let toldMs = performance.now(); !this.#isOver; ) {
      await sleep(SCRAPE_MS)
      const page = await this.service.metrics().catch(() => null)
      if (page !== null) {
        this.#mostBytes = Math.max(this.#mostBytes, page['process_resident_memory_bytes'])
        this.#holdSums(page)
      }
      if (performance.now() - toldMs < PROGRESS_MS) continue
      toldMs = performance.now()
      const seen = `${this.#next} clients, ${this.#received} requests, ${mb(this.#mostBytes)} MB at most`
      progress(`${seen}, ${this.#faults.length} faults`)
    }
  }

  /** @param {Record<string, number>} page */
  #holdSums(page) {
    this.#received = page['sluice_requests_received_total']
    const counted = Object.entries(page).flatMap(([name, count]) => {
      const reason = /^sluice_overloaded_total\{reason="(.+)"\}$/.exec(name)?.[1]
      return reason === undefined || count === 0 ? [] : [/** @type {const} */ ([reason, count])]
    })
    this.#reasons = Object.fromEntries(counted)
    const ended = page['sluice_requests_total'] + page['sluice_requests_in_flight']
    if (this.#received !== ended) this.#add(`received ${this.#received}, outcomes and in flight ${ended}`, null)
  }

  /** After the last client: nothing is left in hand, the drain is clean, and the journal holds what was promised. @param {HonestReport} honest */
  async #settle(honest) {
    let page = await this.service.metrics()
    const isEmpty = async () => {
      page = await this.service.metrics()
      return page['sluice_requests_in_flight'] + page['sluice_ring_requests'] + page['sluice_connections'] === 0
    }
    await cameTrue(isEmpty, SETTLE_TIMEOUT_MS)
    this.#holdSums(page)
    const waited = ['explain_busy', 'inflate_busy'].map((reason) => page[`sluice_overloaded_total{reason="${reason}"}`])
    const overload = this.#overloads.fault(waited[0] + waited[1])
    if (overload !== null) this.#add(overload, null)
    for (const name of [
      'sluice_requests_in_flight',
      'sluice_ring_requests',
      'sluice_ring_used_bytes',
      'sluice_connections',
    ]) {
      if (page[name] !== 0) this.#add(`${name} is ${page[name]} when all clients have gone`, null)
    }
    const code = await this.service.stop()
    if (code !== 0) this.#add(`exit code ${code} after SIGTERM`, null)
    for (const line of this.service.errors()) this.#add(`in the log: ${line.slice(0, 500)}`, null)
    for (const fault of await journalFaults(this.service.records(), this.#accepted, honest)) this.#add(fault, null)
  }

  /** @param {string} what @param {number | null} client */
  #add(what, client) {
    if (this.#faults.length < MOST_TOLD) this.#faults.push({ what, client })
  }

  /** Every client that was there may have done it. */
  async #tellDeath() {
    const exit = this.service.exit()
    const tail = this.service.output().slice(-OUTPUT_TAIL_CHARACTERS)
    this.#add(`the service ended by itself, with ${exit?.signal ?? exit?.code}; its output ends:\n${tail}`, null)
    for (const [turn, script] of this.#playing) {
      const client = this.options.onlyClient ?? turn
      this.#add(`${script.kind}: was there when the service ended`, client)
      await this.#write(client, script)
    }
  }

  /** @param {number} client @param {import('./script.js').Script} script */
  async #write(client, script) {
    const folder = join(this.options.folder, 'scripts')
    await mkdir(folder, { recursive: true })
    const lines = script.steps.map((step) => {
      if (step.do === 'write') return step.bytes.toString('hex')
      return `# ${Object.values(step).join(' ')}`
    })
    await writeFile(
      join(folder, `client-${client}.hex`),
      `# seed ${this.options.seed} client ${client}: ${script.kind}\n${lines.join('\n')}\n`,
    )
  }

  /** @param {HonestReport} honest @returns {RunReport} */
  #report({ tookMs }) {
    const { p50, p99, max } = percentilesOf([...tookMs])
    const boundMb = mb(this.#startBytes) + GATHERING_SHARE * RING_MB + MEMORY_MARGIN_MB
    const mostMb = mb(this.#mostBytes)
    if (mostMb > boundMb) this.#add(`${mostMb} MB of memory, where ${boundMb} MB is the bound`, null)
    return {
      faults: this.#faults,
      clients: this.#next,
      kinds: this.#kinds,
      heard: this.#heard,
      reasons: this.#reasons,
      honest: { requests: tookMs.length, p50Ms: p50 ?? 0, p99Ms: p99 ?? 0, mostMs: max ?? 0 },
      memory: { atStartMb: mb(this.#startBytes), mostMb, boundMb },
      received: this.#received,
    }
  }
}

/** Whether its bodies may wait for a thread: harmed ones to be explained, compressed ones to be decoded. @param {import('./script.js').Script} script */
function mayWait({ kind, expectation }) {
  return expectation.hears === 'judged' || kind === 'split'
}

/** @param {number} port */
function startHonest(port) {
  const worker = new Worker(new URL('./honest.js', import.meta.url), { workerData: { port, appKey: HONEST_KEY } })
  const reported = new Promise((/** @type {(report: HonestReport) => void} */ resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  return {
    stop: () => {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows
      worker.postMessage('stop')
      return reported
    },
  }
}

/** By which the service's Node chooses its build of the HTTP engine. @param {string} node */
function modulesOf(node) {
  return Number(execFileSync(node, ['-p', 'process.versions.modules'], { encoding: 'utf8' }))
}

/** @param {number} bytes */
function mb(bytes) {
  return Math.round(bytes / BYTES_PER_MB)
}
