// SIGTERM: open requests are answered, later ones are refused, and the process ends with 0.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Answer, batch, expectAccepted, expectRefused, get, post, single } from '../support/client.ts'
import { readPage, untilRead } from '../support/hostile.ts'
import { readJournal } from '../support/journal-files.ts'
import { metricsOf } from '../support/processes.js'
import { head, openRaw, rawPost } from '../support/raw-http.ts'
import { appRecord, eventually, makeFolder, type Service, startService } from '../support/service.ts'
import { storedFaults } from '../support/stored-once.js'

const APPS = [appRecord('plain', { events_per_minute: 1_000_000_000, plan: 'trial', events_per_month: 1_000_000_000 })]
const CONNECTIONS = 24

let folder: string
let service: Service

beforeEach(async () => {
  folder = await makeFolder()
})

afterEach(() => service?.kill())

const start = async (env: Record<string, string> = {}): Promise<void> => {
  service = await startService({ dataDir: folder, apps: APPS, env })
}

interface Tally {
  readonly accepted: string[]
  dropped: number
  other: Answer[]
}

/** A client that keeps sending, and reconnects when its connection is closed, until connections are refused. */
async function load(port: number, tally: Tally): Promise<void> {
  for (;;) {
    const connection = await openRaw(port).catch(() => null)
    if (!connection) return
    for (;;) {
      connection.write(rawPost(batch('ak_plain', 3)))
      const answer = await connection.readAnswer()
      if (!answer) {
        tally.dropped++
        break
      }
      if (answer.status === 202) tally.accepted.push(expectAccepted(answer, 3))
      else tally.other.push(answer)
      if (answer.headers['connection'] === 'close') break
    }
    connection.close()
  }
}

describe('SIGTERM under load', () => {
  for (const delaySeconds of ['0', '1']) {
    test(`leaves no request without an answer (a drain delay of ${delaySeconds} s)`, async () => {
      await start({ SLUICE_DRAIN_DELAY_SECONDS: delaySeconds })
      const tally: Tally = { accepted: [], dropped: 0, other: [] }
      const loads = Array.from({ length: CONNECTIONS }, () => load(service.port, tally))
      await eventually('the load runs', () => tally.accepted.length > CONNECTIONS)
      const exit = await service.stop()
      await Promise.all(loads)
      expect(exit.code, exit.output).toBe(0)
      expect(tally.accepted.length).toBeGreaterThan(CONNECTIONS)
      expect(tally.other.filter((answer) => answer.status !== 503).map((answer) => answer.whole)).toEqual([])
      expect(tally.dropped).toBe(0)
      expect(storedFaults(readJournal(folder), tally.accepted)).toEqual([])
    })
  }
})

describe('SIGTERM', () => {
  test('waits for bodies that are still arriving', async () => {
    await start()
    const body = single('ak_plain')
    const halves = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const raw = await openRaw(service.port)
        raw.write(head(['Content-Type: application/json', `Content-Length: ${body.length}`]) + body.slice(0, 50))
        return raw
      }),
    )
    await untilRead(service)
    service.signal('SIGTERM')
    await eventually('it drains', async () => (await readPage(service))['sluice_draining'] === 1)
    for (const raw of halves) raw.write(body.slice(50))
    for (const raw of halves) {
      const answer = await raw.readAnswer()
      expect(answer?.status).toBe(202)
      raw.close()
    }
    expect((await service.exited).code).toBe(0)
    expect(readJournal(folder).length).toBe(10)
  })

  test('makes the service unready at once but keeps it alive, and serves until the delay is over', async () => {
    await start({ SLUICE_DRAIN_DELAY_SECONDS: '2' })
    expect((await get(service.adminPort, '/readyz')).status).toBe(200)
    service.signal('SIGTERM')
    await eventually('readiness is off', async () => (await get(service.adminPort, '/readyz')).status === 503, 1_500)
    expect((await get(service.adminPort, '/livez')).status).toBe(200)
    expect((await get(service.adminPort, '/readyz?verbose')).text).toContain('service: draining')
    expectAccepted(await post(service, single('ak_plain')), 1)
    expect((await metricsOf(service)).get('sluice_draining')).toBe(1)
    expect((await service.exited).code).toBe(0)
  })

  test('refuses new connections once the delay is over', async () => {
    await start()
    const body = single('ak_plain')
    const held = await openRaw(service.port)
    held.write(head(['Content-Type: application/json', `Content-Length: ${body.length}`]) + body.slice(0, 50))
    await untilRead(service)
    service.signal('SIGTERM')
    await eventually('a new connection is refused', async () => {
      const raw = await openRaw(service.port).catch(() => null)
      raw?.close()
      return raw === null
    })
    held.write(body.slice(50))
    expect((await held.readAnswer())?.status).toBe(202)
    held.close()
    expect((await service.exited).code).toBe(0)
  })

  test('does not wait for idle connections', async () => {
    // Longer than `stop` waits for the end.
    await start({ SLUICE_SHUTDOWN_SECONDS: '120' })
    const idle = await Promise.all(Array.from({ length: 20 }, () => openRaw(service.port)))
    idle[0]?.write(rawPost(single('ak_plain')))
    await idle[0]?.readAnswer()
    const exit = await service.stop()
    expect(exit.code, exit.output).toBe(0)
    for (const raw of idle) raw.close()
  })

  test('ends with 0 by its deadline even if a client never finishes its body', async () => {
    await start({ SLUICE_SHUTDOWN_SECONDS: '2' })
    const raw = await openRaw(service.port)
    raw.write(`${head(['Content-Type: application/json', 'Content-Length: 5000'])}{`)
    await untilRead(service)
    const exit = await service.stop()
    expect(exit.code, exit.output).toBe(0)
    expect(exit.output).toContain('503 (stopping)')
    expect(exit.output).not.toContain('evicted')
    raw.close()
  })

  test('answers a partial body with 503 at the deadline, and all others under load until then', async () => {
    await start({ SLUICE_SHUTDOWN_SECONDS: '2' })
    const late = await openRaw(service.port)
    late.write(`${head(['Content-Type: application/json', 'Content-Length: 5000'])}{"app_key":`)
    const asking = await openRaw(service.port)
    const tally: Tally = { accepted: [], dropped: 0, other: [] }
    const loads = Array.from({ length: CONNECTIONS }, () => load(service.port, tally))
    await eventually('the load runs', () => tally.accepted.length > CONNECTIONS)
    service.signal('SIGTERM')
    await eventually('it drains', async () => (await readPage(service))['sluice_draining'] === 1)
    asking.write(head([], 'HEAD /api/v1/events HTTP/1.1'))
    const headers = (await asking.readAnswer({ head: true }))?.headers
    expect(headers?.['connection']).toBe('close')
    const answer = await late.readAnswer()
    if (answer === null) expect.fail('the late body got no answer')
    expectRefused(answer, 503, 'service_overloaded')
    expect(answer.headers['connection']).toBe('close')
    const exit = await service.exited
    await Promise.all(loads)
    expect(exit.code, exit.output).toBe(0)
    expect([tally.dropped, tally.other]).toEqual([0, []])
    expect(storedFaults(readJournal(folder), tally.accepted)).toEqual([])
    // The last snapshot is written after the last answer.
    const snapshot = JSON.parse(readFileSync(join(folder, 'snapshot.json'), 'utf8')) as {
      usage: { apps: { cycles: { used: number }[] }[] }
    }
    expect(snapshot.usage.apps[0]?.cycles[0]?.used).toBe(3 * tally.accepted.length)
  })

  test('sent twice, or as SIGINT, drains too', async () => {
    await start()
    expectAccepted(await post(service, single('ak_plain')), 1)
    service.signal('SIGINT')
    expect((await service.exited).code).toBe(0)
    expect(readJournal(folder).length).toBe(1)
  })
})
