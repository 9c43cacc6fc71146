// @ts-check
// `npm run alerts`: each alert that had no fault of its own is made to happen on real processes, under a Prometheus with the shipped
// rules and their intervals unchanged, and the time until it fires is written down. Some 17 minutes, most of it waiting.
// Wants redis-server, nats-server, prometheus, openssl, prlimit and faketime (Debian's packages) in PATH.

import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { parse } from 'yaml'
import { startProgram } from '../../test/support/processes.js'
import { startNats, startNatsServers, startRedis } from '../../test/support/stores.js'
import { uniformBody } from '../payloads.js'
import { ROOT } from '../shared/node-flags.js'
import { runProgram, temporaryFolder } from '../shared/program.js'
import { endlessApp, startService } from '../shared/service.js'
import { lineOf, NAMES, WANTED } from './wanted.js'

const HELP = `Usage: npm run alerts -- [CELL …]

  some of the cells alone: cluster (clock, replicas), lost (stream), files (descriptors), alone (certificate, app file)
`
const LIMIT_MS = 20 * 60_000
const LOOK_EVERY_MS = 1000
/** As deploy/ has them. */
const GLOBAL = { scrape_interval: '15s', scrape_timeout: '10s', evaluation_interval: '30s' }
/** The node's clock is so far ahead. */
const AHEAD = '+90s'
/** A node has so many files left to open: for scrapes. */
const FILES_LEFT = 8

/** @typedef {import('./wanted.js').Name} Name */
/** @typedef {{ alerts: { state: string, labels: Record<string, string> }[] }} Alerts */

const apps = [endlessApp('ak_one', 'one')]

/** @type {Record<string, string>} */
const logs = {}
/** @type {Record<string, number>} */
const ports = {}

/** @param {string} cell @param {Record<string, string>} env @param {string} [dataDir] */
async function startCell(cell, env, dataDir = temporaryFolder('alerts')) {
  logs[cell] = ''
  const onOutput = (/** @type {string} */ text) => void (logs[cell] += text)
  const node = await startService({ dataDir, apps, env, onOutput })
  ports[cell] = node.adminPort
  return node
}

async function startCluster() {
  const { servers, url: NATS_URL } = await startNatsServers(3)
  const redis = await startRedis()
  const env = { REDIS_URL: redis.url, NATS_URL, SLUICE_STREAM_REPLICAS: '3' }
  // Not under the program faketime: it starts a second process, which outlives it and would be waited for.
  const LD_PRELOAD = execFileSync('faketime', ['-f', AHEAD, 'printenv', 'LD_PRELOAD'], { encoding: 'utf8' }).trim()
  await startCell('cluster', { ...env, LD_PRELOAD, FAKETIME: AHEAD, FAKETIME_DONT_FAKE_MONOTONIC: '1' })
  return servers
}

/** Lowers the limit of open files to little more than the node has open now, with hardly a connection among them. @param {number} pid */
function takeFiles(pid) {
  const most = readdirSync(`/proc/${pid}/fd`).length + FILES_LEFT
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${most}`])
}

async function startLost() {
  const [redis, nats] = [await startRedis(), await startNats()]
  const node = await startCell('lost', { REDIS_URL: redis.url, NATS_URL: nats.url })
  return { node, nats }
}

/** With a certificate that ends in two days. */
function startAlone() {
  const folder = temporaryFolder('alerts')
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const make = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost']
  execFileSync('openssl', [...make, '-keyout', key, '-out', cert], { stdio: 'ignore' })
  return startCell('alone', { SLUICE_TLS_CERT: cert, SLUICE_TLS_KEY: key }, folder)
}

/** @param {number} port */
async function send(port) {
  const body = uniformBody({ rng: Math.random, appKey: 'ak_one', events: 1, nowMs: Date.now() })
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
function said(name) {
  return lineOf(name, logs[WANTED[name].cell])?.slice(0, 400) ?? '(no line)'
}

/** @param {readonly string[]} cells */
async function watch(cells) {
  const servers = cells.includes('cluster') ? await startCluster() : []
  const lost = cells.includes('lost') ? await startLost() : null
  const files = cells.includes('files') ? await startCell('files', {}) : null
  const alone = cells.includes('alone') ? await startAlone() : null
  const prometheus = await startPrometheus()
  if (lost !== null) await send(lost.node.port)
  // Two scrapes of what is well.
  await sleep(35_000)
  if (alone !== null) writeFileSync(join(alone.dataDir, 'apps.json'), '{"apps": [{"app_key": 1}]}')
  await servers[2]?.kill()
  if (files !== null) takeFiles(files.pid)
  if (lost !== null) await deleteStream(lost.nats.url)
  const sinceMs = performance.now()
  const left = new Set(NAMES.filter((name) => cells.includes(WANTED[name].cell)))
  while (left.size > 0 && performance.now() - sinceMs < LIMIT_MS) {
    await sleep(LOOK_EVERY_MS)
    for (const name of left) {
      if (!(await fires(prometheus.port, name))) continue
      left.delete(name)
      // Certificate and clock were wrong from the start, 35 s and a few before.
      console.log(`${name} fires after ${Math.round((performance.now() - sinceMs) / 1000)} s\n  ${said(name)}`)
    }
  }
  for (const name of left) console.log(`${name} never fired\n  ${said(name)}`)
  return left.size === 0
}

await runProgram({
  name: 'alerts',
  help: HELP,
  options: {},
  takesWords: true,
  run: (_values, cells) => watch(cells.length > 0 ? cells : ['cluster', 'lost', 'files', 'alone']),
})
