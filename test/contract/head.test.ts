// HEAD has no body to carry an error: its headers say all.

import { test as base, expect } from 'vitest'
import { type Answer, expectAccepted, expectSound, post, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { head, openRaw } from '../support/raw-http.ts'
import { appRecord } from '../support/service.ts'

const test = base.extend('service', { scope: 'file' }, aService({ apps: [appRecord('plain')] }))

test('HEAD gets the headers of a 405 and no body, and its connection ends', async ({ service }) => {
  const raw = await openRaw(service.port)
  raw.write(head([], 'HEAD /api/v1/events HTTP/1.1'))
  const answer = (await raw.readAnswer({ head: true })) as Answer
  expect(answer.status).toBe(405)
  expect(answer.headers['allow']).toBe('POST')
  expectSound(answer)
  expect(Number(answer.headers['content-length'])).toBeGreaterThan(0)
  expect(answer.headers['connection']).toBe('close')
  await raw.closed
  expect(raw.unread()).toBe('')
})

test('HEAD of another path gets the headers of a 404', async ({ service }) => {
  const raw = await openRaw(service.port)
  raw.write(head([], 'HEAD /elsewhere HTTP/1.1'))
  const answer = (await raw.readAnswer({ head: true })) as Answer
  expect(answer.status).toBe(404)
  expectSound(answer)
  raw.close()
})

test('after a HEAD the service goes on', async ({ service }) => {
  expectAccepted(await post(service, single('ak_plain')), 1)
})
