// @ts-check
// What a run of faults or kills stands on: Redis, NATS, the apps and the nodes, all started and ready; or one node with its journal.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort, runToEnd } from '../../test/support/processes.js'
import { startNats } from '../../test/support/stores.js'
import { journalRecords } from '../shared/journal-records.js'
import { copyService, createNode, startNatsServers, startRedis } from './servers.js'
import { readStream } from './stream.js'

/** Never reached. */
const ENDLESS = 1_000_000_000
export const NO_LIMITS = { perMinute: ENDLESS, perDay: null, perMonth: ENDLESS }
const JOURNAL_MAX_MB = '60000'
const MEAN_EVENTS = 3
/** Where NATS goes as a whole, it is what production has. */
const NATS_SERVERS = 3
const ELECTION_TRIES = 10
/** The command tests a body that costs one event. */
const EXPLAIN_TRIES = 3

/** @typedef {import('./checks.js').Limits} Limits */
/** @typedef {import('./load.js').LoadedApp & { limits: Limits, plan: string, subscription: string }} LimitedApp */

/**
 * One app with room for all, and one for each limit, which the load runs into.
 * @param {{ perSecond: number, minutes: number }} options @returns {LimitedApp[]}
 */
export function planApps({ perSecond, minutes }) {
  const eventsPerMinute = (/** @type {number} */ share) => perSecond * share * MEAN_EVENTS * 60
  const [minuteShare, dayShare, trialShare] = [0.2, 0.1, 0.1]
  const perDay = Math.round(eventsPerMinute(dayShare) * minutes * 0.5)
  const trial = { perMinute: 200, perDay: null, perMonth: Math.round(200 * minutes * 0.6) }
  return [
    app('ample', 0.45, { limits: NO_LIMITS }),
    app('minute', minuteShare, {
      limits: { ...NO_LIMITS, perMinute: Math.round(eventsPerMinute(minuteShare) * 0.6) },
    }),
    app('day', dayShare, { limits: { ...NO_LIMITS, perDay } }),
    app('trial', trialShare, { limits: trial, plan: 'trial', subscription: 'trialing' }),
    app('unkeyed', 0.15, { limits: NO_LIMITS, keyed: false }),
  ]
}

/** @param {string} name @param {number} share @param {Partial<LimitedApp> & Pick<LimitedApp, 'limits'>} rest @returns {LimitedApp} */
function app(name, share, rest) {
  return { appId: name, appKey: `ak_faults_${name}`, share, keyed: true, plan: '5m', subscription: 'active', ...rest }
}

/**
 * @typedef {object} Store may be restarted in order while nodes are killed
 * @property {() => Promise<void>} terminate
 * @property {() => Promise<void>} restart
 */

/**
 * @param {{ folder: string, apps: readonly LimitedApp[], nodes: number, beside?: import('./servers.js').Version | null,
 *   isSpooled?: boolean, isEmbedded?: boolean, onLog: (line: import('./servers.js').LogLine) => void, onDeath: (text: string) => void }} options
 *   `beside`: another version, with which every second node begins; `isSpooled`: each node has a spool, over three servers of NATS;
 *   `isEmbedded`: one node with its journal, without Redis and NATS
 */
export async function prepareGround({ folder, apps, nodes: count, beside = null, isSpooled = false, ...rest }) {
  const { isEmbedded = false, onLog, onDeath } = rest
  const dist = await copyService(folder)
  const stores = isEmbedded ? null : await startStores(folder, isSpooled)
  const home = join(folder, 'node-1', 'data')
  const env = stores?.env ?? {
    SLUICE_APPS_FILE: join(folder, 'apps.json'),
    SLUICE_JOURNAL_MAX_MB: JOURNAL_MAX_MB,
    SLUICE_DATA_DIR: home,
  }
  const sluice = (/** @type {string[]} */ ...args) =>
    runToEnd({ command: ['node', join(dist, 'main.js'), ...args], cwd: folder, env })
  for (const each of apps) await addApp(each)
  const here = { name: 'this version', dist }
  const versions = beside === null ? [here] : [beside, here]
  const nodes = []
  for (let index = 0; index < count; index++) {
    const [port, adminPort] = [await freePort(), await freePort()]
    const name = `node-${index + 1}`
    const own = { name, port, adminPort, folder: join(folder, name), versions, onLog, onDeath }
    const each = createNode({ ...own, env: isSpooled ? { ...env, SLUICE_SPOOL_DIR: join(own.folder, 'spool') } : env })
    if (index % 2 === 1) each.change()
    nodes.push(each)
  }
  await Promise.all(nodes.map((node) => node.start()))

  /** @param {LimitedApp} each */
  async function addApp({ appId, appKey, plan, subscription, limits }) {
    const members = ['--app-id', appId, '--app-key', appKey, '--plan', plan, '--subscription', subscription]
    const figures = ['--events-per-minute', String(limits.perMinute)]
    // What is sold has a tenth on top, except for a trial.
    const sold = plan === 'trial' ? limits.perMonth : soldFor(limits.perMonth)
    figures.push('--events-per-month', String(sold))
    if (limits.perDay !== null) figures.push('--events-per-day', String(limits.perDay))
    let { code, output } = await sluice('apps', 'add', ...members, ...figures)
    // Servers of a cluster answer nothing until they have elected a leader.
    for (let attempt = 1; code !== 0 && attempt < ELECTION_TRIES; attempt++)
      ({ code, output } = await sluice('apps', 'add', ...members, ...figures))
    if (code !== 0) throw new Error(`sluice apps add ended with ${code}:\n${output}`)
  }

  /** What Redis has counted of an app. @param {LimitedApp} each @returns {Promise<{ day: number, month: number }>} */
  async function counters({ appId, appKey }) {
    const file = join(folder, 'explain.json')
    await writeFile(file, JSON.stringify({ app_key: appKey, events: [] }))
    let output = ''
    for (let attempt = 0; attempt < EXPLAIN_TRIES; attempt++) {
      // 1 is a body that would be refused, which is an answer too.
      const result = await sluice('explain', '--json', file)
      output = result.output
      const start = output.indexOf('{')
      if (result.code === null || result.code > 1 || start < 0) continue
      const { limits } = JSON.parse(output.slice(start))
      if (limits !== null) return { day: limits.day.used, month: limits.month.used }
    }
    throw new Error(`sluice explain said nothing of ${appId}:\n${output}`)
  }

  /** @param {(record: import('./stream.js').StoredRecord) => void} onRecord @returns {Promise<{ messages: number, records: number }>} */
  async function readQueue(onRecord) {
    if (stores !== null) return readStream(stores.nats.url, onRecord)
    let records = 0
    for await (const record of journalRecords(join(home, 'journal'))) {
      onRecord(record)
      records += 1
    }
    return { messages: 0, records }
  }

  return { dist, stores, nodes, counters, readQueue }
}

/** @param {string} folder @param {boolean} isSpooled */
async function startStores(folder, isSpooled) {
  const redis = await startRedis(join(folder, 'redis'))
  const cluster = isSpooled ? await startNatsServers(join(folder, 'nats'), NATS_SERVERS) : null
  const nats = cluster ?? (await startNats([], { folder: join(folder, 'nats') }))
  const env = {
    REDIS_URL: redis.url,
    NATS_URL: nats.url,
    ...(cluster !== null && { SLUICE_STREAM_REPLICAS: String(NATS_SERVERS), NATS_MONITOR_URLS: cluster.monitorUrls }),
  }
  return { redis, nats, env }
}

/** The figure of which the enforced month is the largest that fits: n + floor(n / 10). @param {number} enforced */
function soldFor(enforced) {
  return Math.ceil((enforced * 10) / 11)
}
