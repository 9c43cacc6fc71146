// Bodies of which one byte comes: nobody is kept from signing in, from Explain or from a change of an app by them.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { freshReadKey, secretsOf } from '../../src/apps/read-keys.ts'
import { type Answer, send } from '../support/client.ts'
import { openRaw, type RawConnection } from '../support/raw-http.ts'
import { appRecord, eventually, type Service, startService } from '../support/service.ts'

const TOKEN = 'a-token-of-twenty-characters'
const READ_TOKEN = 'another-of-twenty-characters'
const MAX_BODY_BYTES = 524_288
const HALF_BODIES = 24
const GREEDY = freshReadKey()
/** Each of an app of its own: what is explained for one has 20 s a minute, which ten threads may take on a slow machine. */
const HONEST = Array.from({ length: 5 }, freshReadKey)

let service: Service
beforeAll(async () => {
  const apps = [
    { ...appRecord('greedy'), read_keys: [{ name: 'web', ...secretsOf(GREEDY) }] },
    ...HONEST.map((key, at) => ({ ...appRecord(`honest-${at}`), read_keys: [{ name: 'web', ...secretsOf(key) }] })),
  ]
  const env = { SLUICE_PORTAL_PORT: '0', SLUICE_CONSOLE_TOKEN: TOKEN, SLUICE_CONSOLE_READ_TOKEN: READ_TOKEN }
  service = await startService({ apps, env })
})
afterAll(() => service.stop())

/** One byte of each of so many bodies for Explain. */
async function stallBodies(port: number, token: string): Promise<RawConnection[]> {
  const head = [
    'POST /api/explain HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${token}`,
    `Content-Length: ${MAX_BODY_BYTES}`,
  ]
  const raws = await Promise.all(Array.from({ length: HALF_BODIES }, () => openRaw(port)))
  for (const raw of raws) raw.write(`${head.join('\r\n')}\r\n\r\n{`)
  return raws
}

function ask(port: number, method: string, path: string, body: string, headers: Record<string, string>) {
  return send({ port }, { method, path, body, headers: { 'Content-Type': 'application/json', ...headers } })
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })
const signIn = (port: number, token: string): Promise<Answer> =>
  ask(port, 'POST', '/api/session', JSON.stringify({ token }), {})
const explain = (port: number, token: string): Promise<Answer> =>
  ask(port, 'POST', '/api/explain', `{"events":[${' '.repeat(MAX_BODY_BYTES - 13)}]}`, bearer(token))

test('of one read key: the developers of other apps sign in and explain, and two of its own are under way', async () => {
  const { portalPort } = service
  const raws = await stallBodies(portalPort, GREEDY)
  const ends: (Answer | null)[] = []
  const all = Promise.all(raws.map(async (raw) => void ends.push(await raw.readAnswer({ timeoutMs: 600_000 }))))
  await eventually('all but two have an answer', () => ends.length >= HALF_BODIES - 2)
  const answered = ends.map((answer) => [answer?.status, answer?.json['error']])
  expect(answered).toEqual(Array.from({ length: HALF_BODIES - 2 }, () => [429, 'busy']))
  for (const key of [...HONEST, ...HONEST]) {
    expect((await signIn(portalPort, key)).status).toBe(204)
    expect((await explain(portalPort, key)).status).toBe(200)
  }
  // Its own developers sign in too.
  expect((await signIn(portalPort, GREEDY)).status).toBe(204)
  for (const raw of raws) raw.close()
  await all
  // Where the rounds took longer than the 20 s that a body has, the two ended with a 408.
  expect(ends).toHaveLength(HALF_BODIES)
  for (const answer of ends.slice(-2)) expect([undefined, 408]).toContain(answer?.status)
})

test('of the token that only reads: operators sign in, explain and change apps', async () => {
  const { adminPort } = service
  const raws = await stallBodies(adminPort, READ_TOKEN)
  for (let round = 0; round < 10; round++) {
    expect((await signIn(adminPort, TOKEN)).status).toBe(204)
    expect((await explain(adminPort, TOKEN)).status).toBe(200)
    const record = JSON.stringify({ ...appRecord(`new-${round}`), name: 'n'.repeat(10_000) })
    expect([201, 400]).toContain((await ask(adminPort, 'PUT', `/api/apps/new-${round}`, record, bearer(TOKEN))).status)
  }
  for (const raw of raws) raw.close()
})
