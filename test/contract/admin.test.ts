// The second port: liveness, readiness, metrics. And what the metrics must never tell.

import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { test as base, describe, expect } from 'vitest'
import { METRIC_NAMES } from '../cases/metric-names.ts'
import { batch, event, get, MARK, post, send, single } from '../support/client.ts'
import { ENGINE } from '../support/engine.ts'
import { aService } from '../support/fixture.ts'
import { parsePage, sumOf } from '../support/metrics.js'
import { appRecord, eventually, type Service } from '../support/service.ts'

const apps = [appRecord('secretive', { app_id: `id_${MARK}` }), appRecord('tight', { events_per_minute: 1 })]
const test = base.extend('service', { scope: 'file' }, aService({ apps }))

async function metrics(service: Service): Promise<string> {
  const answer = await get(service.adminPort, '/metrics')
  expect(answer.status).toBe(200)
  return answer.text
}

/** One series, or all of a name with these labels. */
function value(text: string, name: string, labels: Readonly<Record<string, string>> = {}): number {
  return sumOf(parsePage(text), name, labels)
}

describe('health', () => {
  test('a service that has started is alive and ready', async ({ service }) => {
    expect((await get(service.adminPort, '/livez')).status).toBe(200)
    expect((await get(service.adminPort, '/readyz')).status).toBe(200)
  })

  test('/readyz?verbose names its parts', async ({ service }) => {
    const answer = await get(service.adminPort, '/readyz?verbose')
    expect(answer.status).toBe(200)
    const [ready, ...parts] = answer.text.trimEnd().split('\n')
    const http = parts.filter((line) => /^http: (ok, )?Node's own HTTP server/.test(line))
    expect(http).toHaveLength(ENGINE === 'node' ? 1 : 0)
    expect([ready, ...parts]).toEqual([
      'ok',
      'queue: ok, journal',
      'limits: ok, in memory',
      'apps: ok, in a file',
      ...http,
    ])
  })

  test('another path is not found, and events are not taken on this port', async ({ service }) => {
    expect((await get(service.adminPort, '/nothing')).status).toBe(404)
    const answer = await send({ port: service.adminPort }, { body: single('ak_secretive') })
    expect(answer.status).toBeGreaterThanOrEqual(404)
  })
})

describe('metrics', () => {
  test('have the promised names', async ({ service }) => {
    await post(service, single('ak_secretive'))
    const text = await metrics(service)
    const missing = [...METRIC_NAMES, 'sluice_http_engine'].filter((name) => !text.includes(`# TYPE ${name} `))
    expect(missing).toEqual([])
    expect(text).toMatch(/nodejs_eventloop_lag/)
    expect(text).toMatch(/nodejs_heap_size/)
    expect(text).toMatch(/nodejs_gc_duration/)
    expect(text).toMatch(/process_resident_memory_bytes/)
  })

  test('counters end in _total, sizes in _bytes, times in _seconds', async ({ service }) => {
    const types = [...(await metrics(service)).matchAll(/^# TYPE (sluice_\w+) (\w+)$/gm)]
    expect(types.length).toBeGreaterThan(10)
    for (const [, name = '', type = ''] of types) {
      if (type === 'counter') expect(name).toMatch(/_total$/)
      else expect(name).not.toMatch(/_total$/)
    }
  })

  test('promtool check metrics finds nothing', async ({ service }) => {
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
      input: await metrics(service),
      encoding: 'utf8',
    })
    expect({ status, said: stdout + stderr }).toEqual({ status: 0, said: '' })
  })

  test('stages are the four promised ones', async ({ service }) => {
    const text = await metrics(service)
    for (const stage of ['receive', 'parse', 'admit', 'publish']) {
      expect(value(text, 'sluice_stage_duration_seconds_count', { stage })).toBeGreaterThan(0)
    }
  })

  test('count every request once, by status and code, and every event by type', async ({ service }) => {
    const before = await metrics(service)
    const key = { 'Idempotency-Key': randomUUID() }
    await post(service, batch('ak_secretive', 3), key)
    await post(service, batch('ak_secretive', 3), key)
    await post(service, batch('ak_secretive', 1, { events: [event({ type: 'screen' })] }))
    await post(service, single('ak_secretive', { type: 'revenue', revenue: {} }))
    await post(service, single('ak_secretive', { type: MARK }))
    await post(service, '{')
    await post(service, single(`ak_${MARK}`))
    await post(service, single('ak_secretive'), { 'Content-Type': 'text/plain' })
    await post(service, batch('ak_tight', 2))
    await send(service, { method: 'PUT' })
    await send(service, { path: `/${MARK}` })
    const after = await metrics(service)
    const grew = (labels: Readonly<Record<string, string>>, name = 'sluice_requests_total'): number =>
      value(after, name, labels) - value(before, name, labels)
    expect(grew({})).toBe(11)
    expect(grew({ status: '202' })).toBe(4)
    const codes = {
      400: ['validation_failed', 'invalid_json'],
      401: ['invalid_app_key'],
      415: ['unsupported_media_type'],
      429: ['rate_limit_exceeded'],
      405: ['method_not_allowed'],
      404: ['not_found'],
    }
    for (const [status, names] of Object.entries(codes)) {
      for (const code of names) expect(grew({ status, code }), code).toBe(1)
    }
    for (const [type, count] of [
      ['track', 3],
      ['screen', 1],
      ['revenue', 1],
    ] as const) {
      expect(grew({ type }, 'sluice_events_accepted_total'), type).toBe(count)
    }
    expect(grew({}, 'sluice_replays_total')).toBe(1)
  })

  test('say how near to full the journal and the remembered keys are, and who is connected', async ({ service }) => {
    await post(service, single('ak_secretive'))
    const text = await metrics(service)
    // Less where its disk has less.
    expect(value(text, 'sluice_journal_max_bytes')).toBeLessThanOrEqual(10_240 * 1024 * 1024)
    expect(value(text, 'sluice_journal_bytes')).toBeLessThan(value(text, 'sluice_journal_max_bytes'))
    expect(value(text, 'sluice_keys_max')).toBe(4_000_000)
    const before = value(text, 'sluice_connections')
    expect(before).toBeGreaterThanOrEqual(1)
    const socket = connect(service.port, '127.0.0.1')
    await eventually('it is counted', async () => value(await metrics(service), 'sluice_connections') === before + 1)
    socket.destroy()
    await eventually(
      'the connection is gone',
      async () => value(await metrics(service), 'sluice_connections') === before,
    )
  })

  test('an idle service has nothing in the ring', async ({ service }) => {
    const text = await metrics(service)
    expect(value(text, 'sluice_ring_requests')).toBe(0)
    expect(value(text, 'sluice_ring_used_bytes')).toBe(0)
    expect(value(text, 'sluice_ring_size_bytes')).toBeGreaterThanOrEqual(64 * 1024 * 1024)
    expect(value(text, 'sluice_draining')).toBe(0)
  })

  test('hold no app, key or path in a label', async ({ service }) => {
    const text = await metrics(service)
    expect(text.toLowerCase()).not.toContain(MARK)
    for (const word of ['secretive', 'ak_', '/api/v1', 'tight']) expect(text).not.toContain(word)
  })

  test('neither does what is logged hold a key', async ({ service }) => {
    expect(service.output()).not.toContain('ak_secretive')
    expect(service.output()).not.toContain(`ak_${MARK}`)
  })
})
