// @ts-check
// `npm run alerts`: each alert that had no fault of its own is made to happen on real processes, under a Prometheus with the shipped
// rules and their intervals unchanged, and the time until it fires is written down. Some 17 minutes, most of it waiting.
// `-- CELL …` takes some of them: cluster (clock, replicas), lost (stream), alone (certificate, app file).
// Wants redis-server, nats-server, prometheus, openssl and faketime (Debian's packages) in PATH.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { parse } from 'yaml'
import { endAll, freePort, startProgram } from '../../test/support/processes.js'
import { startNats, startRedis } from '../../test/support/stores.js'
import { ROOT } from '../shared/node-flags.js'
import { endlessApp, startService } from '../shared/service.js'

const LIMIT_MS = 20 * 60_000
const LOOK_EVERY_MS = 1000
/** As deploy/ has them. */
const GLOBAL = { scrape_interval: '15s', scrape_timeout: '10s', evaluation_interval: '30s' }
/** The node's clock is so far ahead. */
const AHEAD = '+90s'
/** By alert: the cell that it must fire in, and the log line that goes with it. */
const WANTED = {
  SluiceBadAppRecord: { cell: 'alone', says: /apps?\.json|app file/i },
  SluiceCertificateEnds: { cell: 'alone', says: /certificate/i },
  SluiceStoreLost: { cell: 'lost', says: /stream.*(lost|gone|created|anew)/i },
  SluiceClockSkew: { cell: 'cluster', says: /clock/i },
  SluiceStreamReplicasMissing: { cell: 'cluster', says: /replica|survives/i },
}

/** @typedef {keyof typeof WANTED} Name */
/** @typedef {{ alerts: { state: string, labels: Record<string, string> }[] }} Alerts */

const apps = [endlessApp('ak_one', 'one')]
const newFolder = () => mkdtempSync(join(tmpdir(), 'sluice-alerts-'))
/** @type {Record<string, string>} */
const logs = {}
/** @type {Record<string, number>} */
const ports = {}

/** @param {string} cell @param {Record<string, string>} env @param {string} [dataDir] @param {readonly string[]} [before] */
async function startCell(cell, env, dataDir = newFolder(), before = []) {
  logs[cell] = ''
  const onOutput = (/** @type {string} */ text) => void (logs[cell] += text)
  const node = await startService({ dataDir, apps, env, onOutput, before })
  ports[cell] = node.adminPort
  return node
}

async function startCluster() {
  const routes = await Promise.all([freePort(), freePort(), freePort()])
  const urls = routes.map((port) => `nats://127.0.0.1:${port}`)
  const servers = await Promise.all(
    urls.map((url, at) =>
      startNats(['--server_name', `n${at}`, '--cluster_name', 'c', '--cluster', url, '--routes', urls.join()]),
    ),
  )
  const redis = await startRedis()
  const NATS_URL = servers.map(({ url }) => url).join()
  const env = { REDIS_URL: redis.url, NATS_URL, SLUICE_STREAM_REPLICAS: '3' }
  await startCell('cluster', env, newFolder(), ['env', 'FAKETIME_DONT_FAKE_MONOTONIC=1', 'faketime', '-f', AHEAD])
  return servers
}

async function startLost() {
  const [redis, nats] = [await startRedis(), await startNats()]
  const node = await startCell('lost', { REDIS_URL: redis.url, NATS_URL: nats.url })
  return { node, nats }
}

/** With a certificate that ends in two days. */
function startAlone() {
  const folder = newFolder()
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const make = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost']
  execFileSync('openssl', [...make, '-keyout', key, '-out', cert], { stdio: 'ignore' })
  return startCell('alone', { SLUICE_TLS_CERT: cert, SLUICE_TLS_KEY: key }, folder)
}

/** @param {number} port */
async function send(port) {
  const context = { os: 'ios' }
  const id = 'd'.repeat(32)
  const event = { type: 'track', name: 'n', hashed_daily_id: id, hashed_monthly_id: id, session_id: id, context }
  const body = JSON.stringify({ app_key: 'ak_one', events: [{ ...event, timestamp: new Date().toISOString() }] })
  const headers = { 'Content-Type': 'application/json' }
  const { status } = await fetch(`http://127.0.0.1:${port}/api/v1/events`, { method: 'POST', headers, body })
  if (status !== 202) throw new Error(`an event was answered ${status}`)
}

/** @param {string} url */
async function deleteStream(url) {
  const connection = await connect({ servers: url.replace('nats://', '') })
  await (await jetstreamManager(connection)).streams.delete('SLUICE_EVENTS')
  await connection.close()
}

function startPrometheus() {
  const rules = parse(readFileSync(join(ROOT, 'deploy/monitoring/prometheus-rule.yaml'), 'utf8')).spec
  const static_configs = Object.entries(ports).map(([namespace, port]) => ({
    targets: [`127.0.0.1:${port}`],
    labels: { cluster: 'here', namespace },
  }))
  return startProgram({
    name: 'prometheus',
    command: ({ port, folder }) => {
      const scrape_configs = [{ job_name: 'sluice', static_configs }]
      const configuration = { global: GLOBAL, rule_files: ['rules.yml'], scrape_configs }
      writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(configuration))
      writeFileSync(join(folder, 'rules.yml'), JSON.stringify(rules))
      const storage = `--storage.tsdb.path=${join(folder, 'data')}`
      const listening = `--web.listen-address=127.0.0.1:${port}`
      return ['prometheus', `--config.file=${join(folder, 'prometheus.yml')}`, storage, listening]
    },
  })
}

/** @param {number} port @param {Name} name @returns {Promise<boolean>} */
async function fires(port, name) {
  const answer = await fetch(`http://127.0.0.1:${port}/api/v1/alerts`)
  const { data } = /** @type {{ data: Alerts }} */ (await answer.json())
  return data.alerts.some(
    ({ state, labels }) =>
      state === 'firing' && labels['alertname'] === name && labels['namespace'] === WANTED[name].cell,
  )
}

/** @param {Name} name */
function lineOf(name) {
  const { cell, says } = WANTED[name]
  const found = logs[cell].split('\n').find((line) => /"level":"(warn|error)"/.test(line) && says.test(line))
  return found === undefined ? '(no line)' : found.slice(0, 400)
}

/** @param {readonly string[]} cells */
async function main(cells) {
  const servers = cells.includes('cluster') ? await startCluster() : []
  const lost = cells.includes('lost') ? await startLost() : null
  const alone = cells.includes('alone') ? await startAlone() : null
  const prometheus = await startPrometheus()
  if (lost !== null) await send(lost.node.port)
  // Two scrapes of what is well.
  await sleep(35_000)
  if (alone !== null) writeFileSync(join(alone.dataDir, 'apps.json'), '{"apps": [{"app_key": 1}]}')
  await servers[2]?.kill()
  if (lost !== null) await deleteStream(lost.nats.url)
  const sinceMs = performance.now()
  const left = new Set(/** @type {Name[]} */ (Object.keys(WANTED)).filter((name) => cells.includes(WANTED[name].cell)))
  while (left.size > 0 && performance.now() - sinceMs < LIMIT_MS) {
    await sleep(LOOK_EVERY_MS)
    for (const name of left) {
      if (!(await fires(prometheus.port, name))) continue
      left.delete(name)
      // Certificate and clock were wrong from the start, 35 s and a few before.
      console.log(`${name} fires after ${Math.round((performance.now() - sinceMs) / 1000)} s\n  ${lineOf(name)}`)
    }
  }
  for (const name of left) console.log(`${name} never fired\n  ${lineOf(name)}`)
  return left.size === 0
}

let isWell = false
try {
  const given = process.argv.slice(2)
  isWell = await main(given.length > 0 ? given : ['cluster', 'lost', 'alone'])
} catch (error) {
  console.error(error)
} finally {
  await endAll()
}
process.exit(isWell ? 0 : 1)
