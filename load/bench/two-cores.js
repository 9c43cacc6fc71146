// @ts-check
// What a second core gives one process: its decoders, disk and compiler work there. The load shares that core, so the rate
// is the least that it gives; the thread that reads HTTP is what no further core helps.

import { casesOf } from './cases.js'
import { LOAD_CORE, on, pinned, SERVER_CORE } from './processes.js'
import { ensurePrograms, startCluster } from './programs.js'
import { median, middle, number, REQUEST, table } from './report.js'
import { startService } from './servers.js'
import { compareLoads } from './turns.js'

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function twoCores(options) {
  if (!pinned) return { numbers: null, text: 'Two cores: not measured, there is one\n' }
  ensurePrograms(['redis-server', 'nats-server'])
  const how = { rounds: options.quick ? 1 : 5, warmUpSeconds: 3 }
  const single = casesOf({ varied: [true] })
  const cores = await compareLoads(options, {
    cases: [...single, ...casesOf({ events: [100], varied: [false, true] })],
    starts: () => ({
      one: () => startService({ before: on(SERVER_CORE) }),
      two: () => startService({ before: ['taskset', '-c', `${SERVER_CORE},${LOAD_CORE}`] }),
    }),
    ...how,
  })
  const text = table(
    `One process on one core and on two, of which the load has its part; medians of ${how.rounds}, by turns`,
    cores,
    options,
    [
      REQUEST,
      ['one core /s', ({ turns }) => middle(turns, ({ one }) => one.perSecond)],
      ['two cores /s', ({ turns }) => middle(turns, ({ two }) => two.perSecond)],
      ['ratio', ({ turns }) => middle(turns, ({ one, two }) => two.perSecond / one.perSecond, 2)],
      ['CPU µs, one', ({ turns }) => middle(turns, ({ one }) => one.cpuUsPerRequest, 1)],
      ['two', ({ turns }) => middle(turns, ({ two }) => two.cpuUsPerRequest, 1)],
      ['of it the front end', ({ turns }) => middle(turns, ({ two }) => two.mainThreadUsPerRequest, 1)],
      ['most, by it', ({ turns }) => number(1e6 / median(turns.map(({ two }) => two.mainThreadUsPerRequest)))],
    ],
  )
  // On the one core that the load leaves: on two cores of their own two processes take so many times the requests of one.
  const processes = await compareLoads(options, {
    cases: single,
    starts: () => ({ one: startCluster, two: () => startCluster({ env: { SLUICE_PROCESSES: '2' } }) }),
    ...how,
  })
  const processText = table('SLUICE_PROCESSES=2 on one core', processes, options, [
    ['Redis and JetStream', ({ name }) => name],
    ['CPU µs, one process', ({ turns }) => middle(turns, ({ one }) => one.cpuUsPerRequest, 1)],
    ['two', ({ turns }) => middle(turns, ({ two }) => two.cpuUsPerRequest, 1)],
    [
      'on two cores, by it',
      ({ turns }) => middle(turns, ({ one, two }) => (2 * one.cpuUsPerRequest) / two.cpuUsPerRequest, 2),
    ],
  ])
  return { numbers: { cores, processes }, text: `${text}\n${processText}` }
}
