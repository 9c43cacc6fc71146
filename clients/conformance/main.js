// Holds an SDK to what it promises: node clients/conformance/main.js [--only NAME,NAME] [--at-once N] [--json] -- COMMAND…
// COMMAND starts the SDK's driver, once for each scenario; docs/sdk.md has what it reads and writes. Ends with 1 where it fails one.

import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createGate, runScenario } from './run.js'
import { SCENARIOS } from './scenarios.js'

/** So many drivers start at a time. */
const STARTING = 4
/** For a scenario, so that all of them are done within a minute. */
const TIMEOUT_MS = 45_000
const USAGE = `node ${fileURLToPath(import.meta.url)} [--only NAME,NAME…] [--at-once N] [--json] -- COMMAND…
  --only     these scenarios alone; --list prints their names
  --at-once  how many run side by side; all of them by default
  --json     the results as JSON in place of the table`

/**
 * @param {readonly string[]} command
 * @param {{ only?: readonly string[], atOnce?: number, timeoutMs?: number, running?: Set<import('./driver.js').Driver> }} [options]
 * @returns {Promise<import('./run.js').Result[]>} in the order of the scenarios
 */
export async function runAll(command, { only, atOnce = Infinity, timeoutMs = TIMEOUT_MS, running = new Set() } = {}) {
  const unknown = only?.find((name) => !SCENARIOS.some((one) => one.name === name))
  if (unknown !== undefined) throw new Error(`there is no scenario ${unknown}`)
  const chosen = SCENARIOS.filter(({ name }) => only === undefined || only.includes(name))
  const results = new Map()
  const left = [...chosen]
  const surroundings = { gate: createGate(STARTING), running, timeoutMs, stopped: false }
  const work = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift())
      results.set(one.name, await runScenario(one, command, surroundings))
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, chosen.length) }, work))
  return chosen.map(({ name }) => results.get(name))
}

/** @param {readonly import('./run.js').Result[]} results */
export function tableOf(results) {
  const width = Math.max(...results.map(({ name }) => name.length))
  const ran = results.filter(({ state }) => state !== 'not run')
  const lines = ran.flatMap(({ name, state, requests, seconds, problems }) => [
    `${name.padEnd(width)}  ${state.padEnd(8)}  ${`${requests} requests`.padStart(13)}  ${seconds.toFixed(1).padStart(5)} s`,
    ...problems.map(({ kind, says }) => `${' '.repeat(width)}  ${kind}: ${says}`),
  ])
  const count = (/** @type {string} */ state) => results.filter((one) => one.state === state).length
  const sdk = results.find((one) => one.sdk !== '')?.sdk ?? 'the SDK'
  const counts = `${count('held')} held, ${count('failed')} failed, ${count('left out')} left out`
  const others = ran.length < results.length ? `, ${count('not run')} not run, since the driver does not start` : ''
  return [...lines, '', `${sdk}: ${counts}${others}`].join('\n')
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      only: { type: 'string' },
      'at-once': { type: 'string' },
      json: { type: 'boolean' },
      list: { type: 'boolean' },
    },
  })
  if (values.list) {
    console.log(SCENARIOS.map(({ name }) => name).join('\n'))
    return
  }
  const atOnce = Number(values['at-once'] ?? Infinity)
  if (positionals.length === 0 || !(atOnce >= 1)) {
    console.error(USAGE)
    process.exitCode = 2
    return
  }
  /** @type {Set<import('./driver.js').Driver>} */
  const running = new Set()
  process.once('exit', () => running.forEach((driver) => driver.kill()))
  const results = await runAll(positionals, {
    atOnce,
    running,
    ...(values.only !== undefined && { only: values.only.split(',') }),
  })
  console.log(values.json ? JSON.stringify(results, null, 2) : tableOf(results))
  if (results.some(({ state }) => state === 'failed')) process.exitCode = 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.once(signal, () => process.exit(130))
  await main().catch((error) => {
    console.error(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`)
    process.exitCode = 2
  })
}
