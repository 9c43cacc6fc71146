// @ts-check
// `npm run fuzz`: hostile clients of every kind against the built service on this machine, all from one seed, beside
// honest ones that must not notice.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atEnd } from '../../test/support/processes.js'
import { numberOption, runProgram, seedOption } from '../shared/program.js'
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

/** @param {Omit<Parameters<typeof fuzz>[0], 'folder'>} options @returns {Promise<boolean>} whether all held */
async function run(options) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-fuzz-'))
  let held = false
  atEnd(() => rmSync(held ? folder : join(folder, 'data'), { recursive: true, force: true }))
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
  held = all.length === 0
  return held
}

/** @param {Readonly<Record<string, number>>} counts */
function list(counts) {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')
}

await runProgram({
  name: 'fuzz',
  help: HELP,
  options: {
    minutes: { type: 'string', default: '2' },
    seed: { type: 'string' },
    clients: { type: 'string', default: '24' },
    client: { type: 'string' },
    node: { type: 'string', default: process.execPath },
  },
  run: ({ minutes, seed, clients, client, node }) =>
    run({
      minutes: numberOption('minutes', minutes, 0.05, 24 * 60),
      seed: seedOption(seed),
      clients: numberOption('clients', clients, 1, 500),
      ...(client === undefined ? {} : { onlyClient: numberOption('client', client, 0, 2 ** 31) }),
      node,
    }),
})
