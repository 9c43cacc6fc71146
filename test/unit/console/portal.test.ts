import { expect, it } from 'vitest'
import { freshReadKey, secretsOf } from '../../../src/apps/read-keys.ts'
import { Portal } from '../../../src/console/portal.ts'
import { EndedSessions } from '../../../src/console/sessions.ts'
import type { Answer } from '../../../src/http/admin-routes.ts'
import type { Inspection } from '../../../src/inspect/inspection.ts'
import { AddressRanges } from '../../../src/lib/address-ranges.ts'
import { ManualTimers } from '../../support/timers.ts'
import { anApp } from '../apps/apps.ts'

const KEY = freshReadKey()

/** `answer`: of every question. */
function portal(answer: Inspection['answer'], degradedSince: string | null = null) {
  const timers = new ManualTimers()
  const faults: unknown[] = []
  const { hash, session_key: sessionKey } = secretsOf(KEY)
  const app = anApp({ readKeys: [{ name: 'web', hash, sessionKey, endsAtMs: null, usedAtMs: null }] })
  const inspection = { answer, degradedSince: async () => degradedSince } as unknown as Inspection
  const own = new Portal({
    origin: null,
    apps: () => ({ findReader: (asked) => (asked === hash ? app : 'unknown') }),
    ended: new EndedSessions(() => timers.nowMs()),
    pages: { answer: () => null } as never,
    inspection,
    trustedProxies: new AddressRanges([]),
    onUse: () => {},
    timers,
    onFault: (error) => void faults.push(error),
  })
  const ask = async (path: string, query = '') => {
    const headers = { host: 'localhost', authorization: `Bearer ${KEY}` }
    const body = async () => Buffer.alloc(0)
    const reply = (await own.answer({ method: 'GET', path, query, headers, address: '127.0.0.1', body })) as Answer
    return { ...reply, json: JSON.parse(reply.body.toString()) as Record<string, unknown> }
  }
  return { ask, faults, timers }
}

const problem = (status: number, error: string) => async () => ({
  status,
  json: JSON.stringify({ error, message: 'Redis at redis-7 is away' }),
})

it.each([
  ['2026-11-28T10:00:00.000Z', 'degraded since 2026-11-28T10:00:00.000Z: try again in a moment'],
  [null, 'this cannot be answered now: try again in a moment'],
])('tells of an outage only while a part is degraded: %s', async (degradedSince, message) => {
  const { ask, faults } = portal(problem(503, 'unavailable'), degradedSince)
  for (const [path, query] of [['/api/usage'], ['/api/usage', 'days=3'], ['/api/alerts'], ['/api/events']]) {
    const { status, json } = await ask(path, query)
    expect([path, status, json]).toEqual([path, 503, { error: 'unavailable', message }])
  }
  expect(faults).toEqual([])
})

it('tells of no outage where something is a bug, and reports what it threw itself', async () => {
  const bug = { error: 'internal_error', message: 'this cannot be answered: tell whoever runs the service' }
  const [reported, fault] = [portal(problem(500, 'internal_error'), '2026-11-28T10:00:00.000Z'), new TypeError('no')]
  const thrown = portal(() => Promise.reject(fault))
  for (const { ask } of [reported, thrown]) {
    const { status, json } = await ask('/api/alerts')
    expect([status, json]).toEqual([500, bug])
  }
  expect([reported.faults, thrown.faults]).toEqual([[], [fault]])
})

it('says when to ask again where the budget of reading is used up', async () => {
  const told = { error: 'too_many_searches', message: 'too much was read' }
  const { ask } = portal(async () => ({ status: 429, json: JSON.stringify({ ...told, retry_after_seconds: 40 }) }))
  const { status, json, headers } = await ask('/api/events')
  expect([status, json, headers['Retry-After']]).toEqual([429, told, '40'])
})
