// Clients that come and go as they please: silent, leaving in the middle, sending ahead of their answers. Every request
// comes to one end, and what was answered 202 is stored once.

import { describe, expect, test } from 'vitest'
import { type Answer, expectAccepted, expectRefused, expectSound, post, single } from '../support/client.ts'
import { ended, expectClosed, hostileService, readPage, untilRead } from '../support/hostile.ts'
import { head, openRaw, rawPost } from '../support/raw-http.ts'
import { eventually } from '../support/service.ts'

const hostile = hostileService()
const JSON_TYPE = 'Content-Type: application/json'
const BODY = single('ak_plain')

function answered(answer: Answer | null): Answer {
  if (answer === null) expect.fail('no answer')
  return answer
}

describe('clients that leave', () => {
  test('a client that says nothing, and fifty that leave at once, leave no connection behind', async () => {
    const before = await readPage(hostile.service)
    const silent = await openRaw(hostile.service.port)
    for (let i = 0; i < 50; i++) (await openRaw(hostile.service.port)).close()
    silent.close()
    await eventually('their connections are gone', async () => {
      return (await readPage(hostile.service))['sluice_connections'] === before['sluice_connections']
    })
    expect((await readPage(hostile.service))['sluice_requests_received_total']).toBe(
      before['sluice_requests_received_total'],
    )
  })

  test('in the middle of a body: each is counted as aborted, and nothing is stored', async () => {
    const before = await readPage(hostile.service)
    const stored = hostile.stored()
    const raws = await Promise.all(Array.from({ length: 100 }, () => openRaw(hostile.service.port)))
    for (const [index, raw] of raws.entries())
      raw.write(head([JSON_TYPE, 'Content-Length: 400000']) + 'x'.repeat(100 * index))
    // What is reset before it was read was never there.
    await eventually(
      'all heads are read',
      async () => (await readPage(hostile.service))['sluice_requests_in_flight'] === raws.length,
    )
    for (const [index, raw] of raws.entries()) {
      if (index % 2 === 0) raw.socket.resetAndDestroy()
      else raw.close()
    }
    await eventually('all are counted', async () => {
      return ended(await readPage(hostile.service), 'aborted') - ended(before, 'aborted') === raws.length
    })
    expect(hostile.stored()).toBe(stored)
  })

  test('while their answer is on its way: what was accepted is stored, once', async () => {
    const before = await readPage(hostile.service)
    const stored = hostile.stored()
    for (let i = 0; i < 100; i++) {
      const raw = await openRaw(hostile.service.port)
      await new Promise((done) => raw.socket.write(rawPost(BODY), done))
      if (i % 3 === 0) await untilRead(hostile.service)
      raw.socket.resetAndDestroy()
    }
    await eventually(
      'nothing is in flight',
      async () => (await readPage(hostile.service))['sluice_requests_in_flight'] === 0,
    )
    const accepted = ended(await readPage(hostile.service), 'accepted') - ended(before, 'accepted')
    // A reset throws away what was not read yet; the others are there.
    expect(accepted).toBeGreaterThan(0)
    expect(hostile.stored() - stored).toBe(accepted)
  })
})

test('a connection on which nothing moves is closed, and not within the 8 s that answers promise', async () => {
  const beganMs = performance.now()
  const [fresh, served] = await Promise.all([openRaw(hostile.service.port), openRaw(hostile.service.port)])
  served.write(rawPost(BODY))
  expectAccepted(answered(await served.readAnswer()), 1)
  for (const raw of [fresh, served]) {
    await expectClosed(raw, 30_000)
    expect(raw.unread()).toBe('')
  }
  expect(performance.now() - beganMs).toBeGreaterThan(8000)
})

describe('one request after the other on one connection', () => {
  test('good and bad ones are answered each as if it were alone', async () => {
    const raw = await openRaw(hostile.service.port)
    for (let i = 0; i < 50; i++) {
      const isBad = i % 5 === 4
      raw.write(rawPost(isBad ? '{' : BODY))
      const answer = answered(await raw.readAnswer())
      if (isBad) expectRefused(answer, 400, 'invalid_json')
      else expectAccepted(answer, 1)
    }
    raw.close()
  })

  test('a body that its head had refused is read to its end, and the next request is served', async () => {
    const raw = await openRaw(hostile.service.port)
    raw.write(head(['Content-Type: text/plain', `Content-Length: ${BODY.length}`]) + BODY)
    expectRefused(answered(await raw.readAnswer()), 415, 'unsupported_media_type')
    raw.write(rawPost(BODY))
    expectAccepted(answered(await raw.readAnswer()), 1)
    raw.close()
  })

  test('Connection: close is kept', async () => {
    const raw = await openRaw(hostile.service.port)
    raw.write(rawPost(BODY, ['Connection: close']))
    expectAccepted(answered(await raw.readAnswer()), 1)
    await expectClosed(raw)
  })
})

describe('requests sent ahead of their answers', () => {
  test('are answered in order, a few that their heads decide', async () => {
    const raw = await openRaw(hostile.service.port)
    raw.write(head([], 'GET /x HTTP/1.1') + head([], 'PUT /api/v1/events HTTP/1.1') + rawPost(BODY))
    expectRefused(answered(await raw.readAnswer()), 404, 'not_found')
    expectRefused(answered(await raw.readAnswer()), 405, 'method_not_allowed')
    expectAccepted(answered(await raw.readAnswer()), 1)
    raw.close()
  })

  test('behind one whose body is looked at, are not served: the first is stored, and the connection ends without an answer', async () => {
    const stored = hostile.stored()
    const raw = await openRaw(hostile.service.port)
    raw.write(rawPost(BODY) + rawPost('{') + rawPost(BODY))
    await expectClosed(raw)
    expect(raw.unread()).toBe('')
    await eventually('the first is stored', () => hostile.stored() === stored + 1)
  })

  test('with one key, and tried again: the batch that was stored without an answer is answered as a replay', async () => {
    const stored = hostile.stored()
    const key = '0b6e2a52-6f43-4b7a-9d39-0a7f2f3c9b11'
    const raw = await openRaw(hostile.service.port)
    raw.write(rawPost(BODY, [`Idempotency-Key: ${key}`]).repeat(2))
    await expectClosed(raw)
    await eventually('it is stored', () => hostile.stored() === stored + 1)
    const again = await post(hostile.service, BODY, { 'Idempotency-Key': key })
    expectSound(again)
    expectAccepted(again, 1, true)
    expect(hostile.stored()).toBe(stored + 1)
  })
})
