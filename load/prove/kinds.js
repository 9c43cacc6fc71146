// @ts-check
// What `npm run prove` runs by turns: each kind in short runs, whose seeds go on from the last one.

import { ONE_MACHINE } from '../../test/mutate/one-machine.js'
import { SHARED_MODE } from '../../test/mutate/shared.js'

/**
 * @typedef {object} Kind
 * @property {string} name
 * @property {string} unit what is counted: histories, bugs, minutes, kills, bodies
 * @property {number} share of the time, beside that of the others
 * @property {number} amount in one run: a minute or two
 * @property {number} step seeds, or places in a list, that a run uses
 * @property {number} [most] it has no more: then it is done, on this state of its rooms
 * @property {readonly string[]} rooms the folders whose files decide what it finds
 * @property {(from: number) => readonly string[]} args of npm run, after --silent. `from`: a seed, or a place in a list
 * @property {Readonly<Record<string, string>>} [env]
 */

/** Histories in one run: some kinds take seconds each. */
const SCENARIOS = {
  calm: 60,
  plans: 60,
  crashes: 60,
  redis: 60,
  nats: 60,
  servers: 60,
  losses: 60,
  all: 60,
  far: 15,
  day: 3,
  journal: 150,
  spool: 15,
}
const ENGINE_ROOMS = [
  'apps',
  'audit',
  'contract',
  'installation',
  'keys',
  'lib',
  'limits',
  'nats',
  'queue',
  'redis',
  'request',
  'start',
]
const SERVICE_ROOMS = [...ENGINE_ROOMS, 'decode', 'http', 'observe', 'ring', 'settings', 'supervisor']
/** Names of the planted bugs, in the order in which they are planted. */
const BUGS = [...SHARED_MODE, ...ONE_MACHINE].map(({ name }) => name)
const BUGS_A_RUN = 2
const BODIES = 40_000

/** @param {string} command @param {string[]} words @returns {Kind['args']} */
const seeded =
  (command, ...words) =>
  (seed) => [command, '--', ...words, '--seed', `${seed}`]

/** @param {string | undefined} otherNode a second Node, for the fuzzer. @param {string | undefined} beside an older commit @returns {readonly Kind[]} */
export function kinds(otherNode, beside) {
  const nodes = otherNode === undefined ? [[]] : [[], ['--node', otherNode]]
  const fault = [[], ['--outage', '2'], ...(beside === undefined ? [] : [['--beside', beside]])]
  return [
    ...Object.entries(SCENARIOS).map(([scenario, histories]) => ({
      name: `simulate ${scenario}`,
      unit: 'histories',
      share: 6,
      amount: histories,
      step: histories,
      rooms: ENGINE_ROOMS,
      args: seeded('simulate', '--scenario', scenario, '--runs', `${histories}`),
    })),
    ...nodes.flatMap((more) =>
      ['uws', 'node'].map((engine) => ({
        name: `fuzz ${engine}${more.length === 0 ? '' : ', second Node'}`,
        unit: 'minutes',
        share: 5,
        amount: 2,
        step: 1,
        rooms: SERVICE_ROOMS,
        args: seeded('fuzz', '--minutes', '2', ...more),
        env: { SLUICE_HTTP_ENGINE: engine },
      })),
    ),
    ...[[], ['--shared']].map((more) => ({
      name: more.length === 0 ? 'crash one machine' : 'crash shared',
      unit: 'kills',
      share: 5,
      amount: 20,
      step: 1,
      rooms: SERVICE_ROOMS,
      args: seeded('crash', '--rounds', '20', ...more),
    })),
    ...fault.map((more) => ({
      name: ['faults', ...more.slice(0, 1)].join(' ').replace('--', ''),
      unit: 'minutes',
      share: 3,
      amount: 3,
      step: 1,
      rooms: SERVICE_ROOMS,
      args: seeded('faults', '--minutes', '3', ...more),
    })),
    {
      name: 'planted bugs',
      unit: 'bugs',
      share: 12,
      amount: BUGS_A_RUN,
      step: BUGS_A_RUN,
      most: BUGS.length,
      rooms: SERVICE_ROOMS,
      args: (from) => ['mutate', '--', '--name', BUGS.slice(from, from + BUGS_A_RUN).join()],
    },
    {
      name: 'differential',
      unit: 'bodies',
      share: 3,
      amount: BODIES,
      step: BODIES,
      rooms: ['contract', 'decode'],
      args: seeded('differential', '--bodies', `${BODIES}`),
    },
  ]
}
