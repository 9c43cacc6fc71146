// Runs one scenario: the service by its script, a driver of its own, its steps one after the other, and the judgement.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startDriver } from './driver.js'
import { judge } from './judge.js'
import { startService } from './service.js'

/** @typedef {{ name: string, sdk: string, state: 'held' | 'failed' | 'left out' | 'not run', problems: import('./judge.js').Problem[], requests: number, seconds: number }} Result */

/** @typedef {{ gate: ReturnType<typeof createGate>, running: Set<import('./driver.js').Driver>, timeoutMs: number, stopped: boolean }} Surroundings stopped: no other scenario begins */

export const APP_KEY = 'ak_conformance'
const LOOK_MS = 20
/** At the end nothing more is to come. */
const LAST_QUIET_MS = 400

/** Lets so many through at a time. @param {number} most */
export function createGate(most) {
  let free = most
  /** @type {((value: null) => void)[]} */
  const waiting = []
  return {
    enter: () => (free-- > 0 ? Promise.resolve(null) : new Promise((resolve) => waiting.push(resolve))),
    leave() {
      free++
      waiting.shift()?.(null)
    },
  }
}

/**
 * @param {import('./scenarios.js').Scenario} scenario
 * @param {readonly string[]} command
 * @param {Surroundings} surroundings
 * @returns {Promise<Result>}
 */
export async function runScenario(scenario, command, surroundings) {
  const { gate, running, timeoutMs } = surroundings
  let startMs = Date.now()
  /** @type {Result} */
  const none = { name: scenario.name, sdk: '', state: 'not run', problems: [], requests: 0, seconds: 0 }
  // A driver that many others hold up while it starts says nothing of the SDK.
  await gate.enter()
  if (surroundings.stopped) {
    gate.leave()
    return none
  }
  const service = await startService({ ...scenario.service, appKey: APP_KEY })
  const folder = await mkdtemp(join(tmpdir(), 'sluice-conformance-'))
  const driver = startDriver(command, { SLUICE_URL: service.url, SLUICE_APP_KEY: APP_KEY, SLUICE_FOLDER: folder })
  running.add(driver)
  try {
    const hello = await driver.hello()
    if (hello === null) surroundings.stopped = true
    gate.leave()
    startMs = Date.now()
    const missing = (scenario.needs ?? []).filter((one) => hello !== null && !hello.capabilities.includes(one))
    const log = {
      tracked: new Map(),
      marks: [],
      dropped: driver.dropped,
      requests: service.requests,
      stored: service.stored,
    }
    const play = createPlay({ service, driver, log, timeoutMs })
    const result = (state, problems) => {
      const seconds = (Date.now() - startMs) / 1000
      return { name: scenario.name, sdk: hello?.sdk ?? '', state, problems, requests: log.requests.length, seconds }
    }
    if (missing.length > 0) return result('left out', [])
    for (const step of [...scenario.steps, 'settle', { quiet: LAST_QUIET_MS }, 'close'])
      if (driver.wrong() === null) await play.step(step)
    await driver.end()
    const wrong = driver.wrong()
    /** @type {import('./judge.js').Problem[]} */
    const problems = [
      ...(wrong === null ? [] : [{ kind: /** @type {const} */ ('driver'), says: wrong }]),
      ...play.problems,
      ...judge(scenario, log, hello?.capabilities ?? []),
    ]
    return result(problems.length === 0 ? 'held' : 'failed', problems)
  } catch (error) {
    // What it said or sent is such that the kit cannot judge it: the other scenarios go on.
    const says = `what it says or sends breaks the kit: ${/** @type {Error} */ (error).stack}`
    return { ...none, state: 'failed', problems: [{ kind: 'driver', says }], seconds: (Date.now() - startMs) / 1000 }
  } finally {
    await driver.end()
    running.delete(driver)
    await service.down()
    await rm(folder, { recursive: true, force: true })
  }
}

/** What the steps do. */
function createPlay({ service, driver, log, timeoutMs }) {
  const endMs = Date.now() + timeoutMs
  /** @type {import('./judge.js').Problem[]} */
  const problems = []
  let isRefused = false
  const mark = (/** @type {string} */ what) => void log.marks.push({ what, atMs: Date.now() })

  async function until(/** @type {() => boolean} */ isThere, /** @type {() => string} */ what) {
    while (!isThere() && driver.wrong() === null) {
      if (Date.now() > endMs)
        return void problems.push({ kind: 'hangs', says: `after ${timeoutMs / 1000} s ${what()}` })
      await pause(LOOK_MS)
    }
  }

  /** Events whose fate the SDK does not know yet: neither reported, nor in a batch that was answered 202. */
  function open() {
    const stored = log.requests.filter(({ answer }) => answer.status === 202)
    const known = new Set([...driver.dropped, ...stored].flatMap(({ names }) => names))
    return [...log.tracked.keys()].filter((name) => !known.has(name))
  }
  const underWay = () => log.requests.filter(({ endedMs }) => endedMs === null).length

  const commands = {
    async flush() {
      mark('flush')
      await driver.tell({ command: 'flush' })
    },
    async opt_out() {
      await driver.tell({ command: 'opt_out' })
      mark('opted_out')
      isRefused = true
    },
    async opt_in() {
      mark('opt_in')
      isRefused = false
      await driver.tell({ command: 'opt_in' })
    },
    async restart() {
      mark('restart')
      await driver.tell({ command: 'restart' })
      // Until here the earlier process may have sent.
      mark('restart')
    },
    async close() {
      mark('close')
      await driver.tell({ command: 'close' })
    },
    settle: () =>
      until(
        () => open().length === 0 && underWay() === 0,
        () =>
          `neither stored nor reported: ${open().slice(0, 3).join(', ')} (${open().length}), and ${underWay()} requests wait`,
      ),
    release: () => service.release(),
    down: () => service.down(),
    up: () => service.up(),
  }

  async function step(/** @type {import('./scenarios.js').Step} */ step) {
    if (typeof step === 'string') return await commands[step]()
    if ('track' in step) {
      const { track: names, characters = 0 } = step
      const properties = Object.fromEntries(
        Array.from({ length: Math.ceil(characters / 400) }, (_, place) => [`text_${place}`, 'é1'.repeat(200)]),
      )
      for (const name of names) log.tracked.set(name, { atMs: Date.now(), refused: isRefused })
      await driver.tell(...names.map((name) => ({ command: 'track', name, properties })))
    } else if ('requests' in step)
      await until(
        () => log.requests.length >= step.requests,
        () => `${log.requests.length} requests came, not ${step.requests}`,
      )
    else if ('answered' in step)
      await until(
        () => log.requests.length >= step.answered && underWay() === 0,
        () => `${log.requests.length} requests came, not ${step.answered}`,
      )
    else if ('quiet' in step) {
      const before = log.requests.length
      await pause(step.quiet)
      if (step.silent && log.requests.length > before)
        problems.push({
          kind: 'too_early',
          says: `${log.requests.length - before} requests came while none was to come`,
        })
    } else if ('deviceAheadMs' in step) await driver.tell({ command: 'clock', ahead_ms: step.deviceAheadMs })
    else if ('serviceAheadMs' in step) service.setClock(step.serviceAheadMs)
  }
  return { step, problems }
}

const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms))
