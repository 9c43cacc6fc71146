// The configurations of Redis and NATS in the manifests, in real servers: sluice finds nothing wrong with them, and loses
// nothing when one goes as the manifests have it.

import { execFileSync, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { get, post, single } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { ENGINE } from '../support/engine.ts'
import { configurationOf, environmentOf, probesOf, workload } from '../support/kubernetes-view.ts'
import { buildKustomization, type KubernetesObject } from '../support/kustomize.ts'
import {
  KNOWS_SYNC_INTERVAL,
  natsConfiguration,
  type ProductionServer,
  passwordFiles,
  replaceEach,
  startProductionNats,
  urlOf,
  writeFiles,
} from '../support/manifest-nats.ts'
import { NATS_SERVER } from '../support/nats.ts'
import { freePort, startProgram } from '../support/programs.ts'
import { startRedis } from '../support/redis.ts'
import { appRecord, eventually, makeFolder, runCommand, sleep, startService } from '../support/service.ts'

const [local, production] = await Promise.all(
  ['local', 'production'].map((name) => buildKustomization(`deploy/overlays/${name}`)),
)
const ANY_PORT = { PORT: '0', SLUICE_ADMIN_PORT: '0' }
const ELECTION_MS = 45_000
const RETRY_MS = 50

/** `operator`: of whoever may write app records. */
async function startNode(env: Readonly<Record<string, string>>, operator = env) {
  const dataDir = await makeFolder()
  const record = appRecord('stores')
  const args = Object.entries(record).flatMap(([name, value]) => [`--${name.replaceAll('_', '-')}`, String(value)])
  const added = await runCommand(['apps', 'add', ...args], operator)
  if (added.code !== 0) throw new Error(added.output)
  const node = await startService({ dataDir, env: { SLUICE_ADMIN_HOST: '127.0.0.1', SLUICE_PARSERS: '1', ...env } })
  onTestFinished(() => node.kill())
  return { node, appKey: record.app_key }
}

/** What the monitoring port says of the stream's leader. */
async function leaderOf({ monitorPort }: ProductionServer): Promise<string | undefined> {
  interface Account {
    readonly stream_detail?: readonly { readonly cluster?: { readonly leader?: string } }[]
  }
  const { text } = await get(monitorPort, '/jsz?accounts=true&streams=true')
  const { account_details: accounts = [] } = JSON.parse(text) as { account_details?: Account[] }
  return accounts.flatMap(({ stream_detail: streams = [] }) => streams).at(0)?.cluster?.leader
}

describe("production's NATS", () => {
  it('has a configuration in which nats-server 2.9 knows every line but one', () => {
    const [container] = workload(production, 'nats').pod.containers
    const env = { ...process.env, ...environmentOf(production, container, () => '') }
    const folder = mkdtempSync(join(tmpdir(), 'sluice-nats-'))
    writeFiles(folder, passwordFiles([6222]))
    const complaintAbout = (text: string): string => {
      const file = join(folder, 'nats.conf')
      writeFileSync(file, text)
      const { status, stderr } = spawnSync(NATS_SERVER, ['-t', '-c', file], { env, encoding: 'utf8' })
      return status === 0 ? '' : stderr
    }
    const text = configurationOf(production, 'nats-config', 'nats.conf')
    expect(complaintAbout(text)).toMatch(KNOWS_SYNC_INTERVAL ? /^$/ : /unknown field "sync_interval"/)
    expect(complaintAbout(natsConfiguration(production))).toBe('')
    expect(complaintAbout(text.replace('max_file_store', 'max_file_stores'))).toMatch(/unknown field "max_file_stores"/)
  })

  it('keeps three copies behind its passwords, and loses and doubles no batch when a server goes as preStop has it', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const { servers, stop } = await startProductionNats(production)
    onTestFinished(stop)
    const url = urlOf(servers, 'sluice')
    const env = { ...ANY_PORT, REDIS_URL: redis.url, NATS_URL: url, SLUICE_STREAM_REPLICAS: '3' }
    const probes = probesOf(workload(production, 'nats').pod.containers[0])
    for (const server of servers) {
      for (const { httpGet } of probes) {
        const path = httpGet?.path ?? ''
        await eventually(
          `${path} is 200`,
          async () => (await get(server.monitorPort, path)).status === 200,
          ELECTION_MS,
        )
      }
    }
    const { node, appKey } = await startNode(env, { ...env, NATS_URL: urlOf(servers, 'operator') })
    await becomesReady(node)
    await eventually('a batch is stored', async () => (await post(node, single(appKey))).status === 202, ELECTION_MS)
    const check = await runCommand(['check'], env)
    expect(check.output).toMatch(/ok +stream .*3 replicas/)
    const wrong = await runCommand(['check'], { ...env, NATS_URL: url.replaceAll('pSluice1', 'pWrong1') })
    expect(wrong.output).toMatch(/FAIL +nats/i)

    const leaderName = await leaderOf(servers[0])
    const leader = servers.find(({ name }) => name === leaderName)
    if (leader === undefined) throw new Error(`the stream's leader is ${leaderName}`)
    const accepted: string[] = []
    const ending = new AbortController()
    const load = (async () => {
      while (!ending.signal.aborted) {
        // As a client does: the same batch under the same key until it is told that it is stored.
        const headers = { 'Idempotency-Key': randomUUID() }
        for (;;) {
          const answer = await post(node, single(appKey), headers)
          if (answer.status === 202) accepted.push(String(answer.headers['x-batch-id']))
          if (answer.status === 202) break
          expect(answer.status).toBe(503)
          await sleep(RETRY_MS)
        }
      }
    })()
    const [file, ...args] = preStopOf(production).map((arg) => arg.replace('/var/run/nats/nats.pid', leader.pidFile))
    execFileSync(file, args)
    // The kubelet's, right after the hook.
    process.kill(leader.program.pid, 'SIGTERM')
    await eventually('the server is gone', () => !isAlive(leader.program.pid), ELECTION_MS)
    const survivor = servers.find((server) => server !== leader) ?? leader
    await eventually(
      'another leads',
      async () => ((await leaderOf(survivor)) ?? leaderName) !== leaderName,
      ELECTION_MS,
    )
    // One may have been sent before: the second was not.
    const enough = accepted.length + 2
    await eventually('the new leader stores batches', () => accepted.length >= enough, ELECTION_MS)
    ending.abort()
    await load
    const { code, stdout, output } = await runCommand(['tail', '--from-start', '--no-follow', '--records'], env)
    expect(code, output).toBe(0)
    const records = stdout.trimEnd().split('\n')
    const stored = records.map((line) => (JSON.parse(line) as { batch_id: string }).batch_id)
    expect(new Set(stored).size, 'nothing is stored twice').toBe(stored.length)
    expect(accepted.filter((batchId) => !stored.includes(batchId))).toEqual([])
  })
})

function preStopOf(objects: readonly KubernetesObject[]): string[] {
  return workload(objects, 'nats').pod.containers[0].lifecycle?.preStop?.exec?.command ?? []
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe("local's stores", () => {
  it('are a Redis and a NATS that sluice finds nothing wrong with', async () => {
    const container = workload(local, 'redis').pod.containers[0]
    const redis = await startProgram({
      name: 'redis',
      command: ({ port, folder }) => {
        const file = join(folder, 'redis.conf')
        const adapted = replaceEach(configurationOf(local, 'redis-config', 'redis.conf'), [
          { found: 'bind * -::*', by: 'bind 127.0.0.1' },
          { found: 'port 6379', by: `port ${port}` },
          { found: 'dir /data', by: `dir ${folder}` },
        ])
        writeFileSync(file, adapted)
        return (container.args ?? []).map((arg) => arg.replace('/etc/redis/redis.conf', file))
      },
    })
    onTestFinished(() => redis.stop())
    const monitorPort = await freePort()
    const nats = await startProgram({
      name: 'nats',
      command: ({ port, folder }) => {
        const file = join(folder, 'nats.conf')
        const adapted = replaceEach(natsConfiguration(local), [
          { found: 'port: 4222\n', by: `host: 127.0.0.1\nport: ${port}\n` },
          { found: 'http_port: 8222\n', by: `http: "127.0.0.1:${monitorPort}"\n` },
          { found: 'store_dir: "/data"', by: `store_dir: ${JSON.stringify(join(folder, 'data'))}` },
        ])
        writeFileSync(file, adapted)
        return [NATS_SERVER, '--config', file]
      },
    })
    onTestFinished(() => nats.stop())
    const urls = { REDIS_URL: `redis://127.0.0.1:${redis.port}`, NATS_URL: `nats://127.0.0.1:${nats.port}` }
    const env = { ...ANY_PORT, ...urls, NATS_MONITOR_URLS: `http://127.0.0.1:${monitorPort}` }
    const { node, appKey } = await startNode(env)
    await becomesReady(node)
    await eventually('a batch is stored', async () => (await post(node, single(appKey))).status === 202)
    const { output } = await runCommand(['check'], env)
    expect(output).toMatch(/ok +redis .*one server/)
    expect(output).toMatch(/ok +stream /)
    // One server has one copy, which is the difference to production.
    const survives = KNOWS_SYNC_INTERVAL ? 'a kill of any server, a power cut of one and a power cut of all' : ''
    expect(output).toMatch(
      new RegExp(`^warn +durability +a 202 survives ${survives}.*; one replica of SLUICE_EVENTS`, 'm'),
    )
    const complaints = output.split('\n').filter((line) => /^(warn|FAIL) +(?!durability| )/i.test(line))
    // An older engine is of the Node that the tests run on, and no fault of the stores.
    const others = complaints.filter((line) => ENGINE === 'new' || !/^warn +engine .* is from 2024/.test(line))
    expect(others).toEqual([])
    expect(complaints.length - others.length).toBe(ENGINE === 'old' ? 1 : 0)

    const probe = (container.readinessProbe?.exec?.command ?? []).map((arg) =>
      arg.replace('redis-cli', `redis-cli -p ${redis.port}`),
    )
    expect(spawnSync(probe[0], probe.slice(1)).status).toBe(0)
    await redis.kill()
    expect(spawnSync(probe[0], probe.slice(1)).status).not.toBe(0)
  })
})
