// While a start reads a long journal, the admin port answers: alive, but not ready.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { expectAccepted, get, post, single } from '../support/client.ts'
import { readMetrics } from '../support/metrics.js'
import { metricsOf } from '../support/processes.js'
import { freePort } from '../support/programs.ts'
import { appRecord, makeFolder, type Service, startService } from '../support/service.ts'

const RECORDS = 100_000

let folder: string
let service: Service

beforeEach(async () => {
  folder = await makeFolder()
})

afterEach(() => service?.kill())

/** Records of the present, so that each is counted and its key remembered. */
function writeJournal(): void {
  const receivedAt = new Date().toISOString()
  const lines = Array.from({ length: RECORDS }, (_, index) => {
    const id = `0190a1b2-0000-5000-8000-${String(index).padStart(12, '0')}`
    return `{"v":1,"batch_id":"${id}","app_id":"plain","received_at":"${receivedAt}","events":[{"type":"track"}]}\n`
  })
  mkdirSync(join(folder, 'journal'))
  writeFileSync(join(folder, 'journal', '000000000001.ndjson'), lines.join(''))
}

test('a service that reads its journal is alive but not ready, and then serves', async () => {
  writeJournal()
  const adminPort = await freePort()
  const start = { isOver: false }
  const started = startService({
    dataDir: folder,
    apps: [appRecord('plain', { events_per_minute: 1_000_000 })],
    env: { SLUICE_ADMIN_PORT: String(adminPort) },
  }).finally(() => {
    start.isOver = true
  })
  const seen = new Set<string>()
  while (!start.isOver) {
    const answers = await Promise.all(
      ['/livez', '/readyz', '/readyz?verbose', '/metrics'].map((path) => get(adminPort, path).catch(() => null)),
    )
    // The four are of before it was ready only if it is not ready after them.
    if ((await get(adminPort, '/readyz').catch(() => null))?.status === 200) break
    const [live, ready, verbose, metrics] = answers
    if (live) seen.add(`live ${live.status}`)
    if (ready) seen.add(`ready ${ready.status}`)
    if (verbose) seen.add(verbose.text)
    if (metrics) seen.add(`sluice_ready ${readMetrics(metrics.text).get('sluice_ready')}`)
  }
  service = await started
  expect([...seen].toSorted()).toEqual(['live 200', 'not ready\nservice: starting\n', 'ready 503', 'sluice_ready 0'])
  expect((await get(adminPort, '/readyz')).status).toBe(200)
  expect((await metricsOf({ adminPort })).get('sluice_keys_remembered')).toBe(RECORDS)
  expectAccepted(await post(service, single('ak_plain')), 1)
})
