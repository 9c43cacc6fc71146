// @ts-check
// What the crash test kills: one node with its journal, or two nodes over Redis and NATS. Each is started, stopped and
// read by the same few functions.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort, runToEnd } from '../../test/support/processes.js'
import { prepareGround } from '../faults/ground.js'
import { copyService, createNode } from '../faults/servers.js'
import { readStream } from '../faults/stream.js'
import { journalRecords } from '../shared/journal-records.js'

/** Never reached. */
const ENDLESS = 1_000_000_000
const JOURNAL_MAX_MB = '60000'
const LIMITS = { perMinute: ENDLESS, perDay: null, perMonth: ENDLESS }

/** @typedef {import('../faults/ground.js').LimitedApp} LimitedApp */
/** @typedef {import('../faults/servers.js').Node} Node */
/** @typedef {Pick<import('../../test/support/stores.js').Store, 'terminate' | 'restart'>} Store */
/** @typedef {import('../faults/stream.js').StoredRecord} StoredRecord */
/**
 * @typedef {object} Ground
 * @property {string} dist
 * @property {readonly Node[]} nodes
 * @property {readonly Store[]} stores may be restarted in order while nodes are killed
 * @property {(onRecord: (record: StoredRecord) => void) => Promise<void>} readQueue
 * @property {((app: LimitedApp) => Promise<number>) | null} counted events in an app's month, once the nodes have ended; null: the audit knows later
 */
/** @typedef {Pick<Parameters<typeof createNode>[0], 'onLog' | 'onDeath'>} Listeners */

/** One for batches with a key, and one for batches without. @type {readonly LimitedApp[]} */
export const APPS = [app('keyed', true), app('plain', false)]

/** @param {string} appId @param {boolean} keyed @returns {LimitedApp} */
function app(appId, keyed) {
  return { appId, appKey: `ak_crash_${appId}`, share: 0.5, keyed, limits: LIMITS, plan: '5m', subscription: 'active' }
}

/** @param {string} folder @param {Listeners} listeners @returns {Promise<Ground>} */
export async function embeddedGround(folder, listeners) {
  const dist = await copyService(folder)
  const appsFile = join(folder, 'apps.json')
  const apps = APPS.map(({ appId, appKey, plan, subscription }) => ({
    app_key: appKey,
    app_id: appId,
    plan,
    subscription,
    events_per_minute: ENDLESS,
    events_per_month: ENDLESS,
  }))
  await writeFile(appsFile, JSON.stringify({ apps }))
  const [port, adminPort] = [await freePort(), await freePort()]
  const env = { SLUICE_APPS_FILE: appsFile, SLUICE_JOURNAL_MAX_MB: JOURNAL_MAX_MB }
  const home = join(folder, 'node')
  const node = createNode({
    name: 'node',
    port,
    adminPort,
    folder: home,
    versions: [{ name: 'node', dist }],
    env,
    ...listeners,
  })
  await node.start()
  return {
    dist,
    nodes: [node],
    stores: [],
    readQueue: async (onRecord) => {
      for await (const record of journalRecords(join(home, 'data', 'journal'))) onRecord(record)
    },
    counted: async ({ appKey }) => {
      const file = join(folder, 'explain.json')
      await writeFile(file, JSON.stringify({ app_key: appKey, events: [] }))
      const command = ['node', join(dist, 'main.js'), 'explain', '--json', file]
      const { stdout } = await runToEnd({ command, env: { ...env, SLUICE_DATA_DIR: join(home, 'data') } })
      return JSON.parse(stdout).limits.month.used
    },
  }
}

/** @param {string} folder @param {Listeners} listeners @returns {Promise<Ground>} */
export async function sharedGround(folder, listeners) {
  const { dist, nodes, redis, nats } = await prepareGround({ folder, apps: APPS, nodes: 2, ...listeners })
  return {
    dist,
    nodes,
    stores: [nats, redis],
    readQueue: async (onRecord) => {
      await readStream(nats.url, onRecord)
    },
    counted: null,
  }
}
