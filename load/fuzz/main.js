// @ts-check
// `npm run fuzz`: hostile clients of every kind against the built service on this machine, all from one seed, beside
// honest ones that must not notice.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { endAll } from '../../test/support/processes.js'
import { fuzz } from './run.js'

const HELP = `Usage: npm run fuzz -- [OPTIONS]

  --minutes N     how long (2)
  --seed N        the same clients in the same order (default: made up, and printed)
  --clients N     hostile clients at the same time (24)
  --client N      only the script of this client, again and again: to repeat a fault
  --node PATH     the Node that runs the service (this one)
`
/** What honest clients may wait, as README promises it. Judged from a minute on: before that a few requests decide it. */
const HONEST_P99_MS = 250
const JUDGED_FROM_MINUTES = 1

function readOptions() {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '2' },
      seed: { type: 'string' },
      clients: { type: 'string', default: '24' },
      client: { type: 'string' },
      node: { type: 'string', default: process.execPath },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const number = (
    /** @type {string} */ name,
    /** @type {string} */ text,
    /** @type {number} */ least,
    /** @type {number} */ most,
  ) => {
    const value = Number(text)
    if (!(value >= least && value <= most))
      throw new Error(`--${name}: must be a number from ${least} to ${most}\n\n${HELP}`)
    return value
  }
  return {
    help: values.help,
    minutes: number('minutes', values.minutes, 0.05, 24 * 60),
    seed: values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : number('seed', values.seed, 0, 2 ** 32 - 1),
    clients: number('clients', values.clients, 1, 500),
    ...(values.client === undefined ? {} : { onlyClient: number('client', values.client, 0, 2 ** 31) }),
    node: values.node,
  }
}

/** @param {ReturnType<typeof readOptions>} options @param {string} folder @returns {Promise<boolean>} whether all held */
async function run(options, folder) {
  const { seed, minutes } = options
  console.log(`seed ${seed}, ${minutes} minutes, ${options.node}`)
  const report = await fuzz({ ...options, folder, progress: (line) => console.log(`… ${line}`) })
  const { honest, memory, faults } = report
  const all = [...faults]
  if (minutes >= JUDGED_FROM_MINUTES && honest.p99Ms > HONEST_P99_MS) {
    all.push({
      what: `honest clients waited ${honest.p99Ms.toFixed(0)} ms (p99), where ${HONEST_P99_MS} ms is the bound`,
      client: null,
    })
  }
  console.log(`${report.clients} hostile clients, ${report.received} requests`)
  console.log(`clients by kind: ${list(report.kinds)}`)
  console.log(`answers by status: ${list(report.heard)}; 503 by reason: ${list(report.reasons) || 'none'}`)
  console.log(
    `honest: ${honest.requests} requests, p50 ${honest.p50Ms.toFixed(1)} ms, p99 ${honest.p99Ms.toFixed(1)} ms, at most ${honest.mostMs.toFixed(0)} ms`,
  )
  console.log(`memory: ${memory.atStartMb} MB at the start, ${memory.mostMb} MB at most, bound ${memory.boundMb} MB`)
  for (const { what, client } of all) {
    console.log(`FAULT ${client === null ? '' : `(client ${client}; --seed ${seed} --client ${client}) `}${what}`)
  }
  console.log(all.length === 0 ? 'held' : `${all.length} faults; what the clients sent: ${join(folder, 'scripts')}`)
  return all.length === 0
}

/** @param {Readonly<Record<string, number>>} counts */
function list(counts) {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')
}

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => void endAll().finally(() => process.exit(130)))
}

const options = readOptions()
if (options.help) console.log(HELP)
else {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-fuzz-'))
  let held = false
  try {
    held = await run(options, folder)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
  } finally {
    await endAll()
    if (held) await rm(folder, { recursive: true, force: true })
    else await rm(join(folder, 'data'), { recursive: true, force: true })
  }
  // Honest clients may still wait for a service that is gone.
  process.exit(held ? 0 : 1)
}
