// Uploads that are slow and honest, and those that are slow and nothing else. The engine's timer decides, so each takes
// as long as it takes.

import { describe, expect, test } from 'vitest'
import { bodyOfSize, expectAccepted } from '../support/client.ts'
import { ended, expectClosed, hostileService, readPage } from '../support/hostile.ts'
import { head, openRaw } from '../support/raw-http.ts'
import { sleep } from '../support/service.ts'

const hostile = hostileService()
const JSON_TYPE = 'Content-Type: application/json'

/** Longer than the engine gives a body that has not brought it 160 KB, by itself. */
const PIECES = 48
const GAP_MS = 250

describe('slow uploads', () => {
  for (const [claim, kilobytes] of [
    ['60 KB at 5 KB a second', 60],
    ['24 KB at 2 KB a second', 24],
  ] as const) {
    test(`${claim} are accepted`, async () => {
      const stored = hostile.stored()
      const body = bodyOfSize('ak_plain', kilobytes * 1000)
      const raw = await openRaw(hostile.service.port)
      raw.write(head([JSON_TYPE, `Content-Length: ${body.length}`]))
      const size = Math.ceil(body.length / PIECES)
      for (let at = 0; at < body.length; at += size) {
        raw.write(body.slice(at, at + size))
        // The pace is what is tried here.
        await sleep(GAP_MS)
      }
      const answer = await raw.readAnswer()
      if (answer === null) expect.fail('no answer')
      expectAccepted(answer, 1)
      expect(hostile.stored()).toBe(stored + 1)
      raw.close()
    })
  }

  test('a body of which a byte comes now and then is ended by the engine, and counted', async () => {
    const before = await readPage(hostile.service)
    const raw = await openRaw(hostile.service.port)
    raw.write(head([JSON_TYPE, 'Content-Length: 400000']))
    const drip = setInterval(() => raw.write(' '), GAP_MS)
    try {
      await expectClosed(raw, 45_000)
    } finally {
      clearInterval(drip)
      raw.close()
    }
    expect(raw.unread()).toBe('')
    expect(ended(await readPage(hostile.service), 'aborted') - ended(before, 'aborted')).toBe(1)
  })
})
