// Compressed bodies that unfold to next to nothing, or to little for the time that they take, one after the other on many
// connections, without an app's key: honest compressed bodies are accepted beside them.

import { randomBytes, randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { emptyBrotli, emptyGzip, emptyZlib, thinGzip } from '../../load/fuzz/empty-blocks.js'
import { batch, event, post } from '../support/client.ts'
import { expectUnharmed, hostileService } from '../support/hostile.ts'
import { sleep } from '../support/service.ts'

const hostile = hostileService()
const HONEST = 40
const LEAST_ACCEPTED = 0.95
/** 200 a second of 16 KB, and 25 of 512 KB, whether or not the ones before are answered. */
const INTERVALS_MS = { 16_384: 5, 524_288: 40 }
/** More than the event loop decodes by itself. */
const LARGE = gzipSync(JSON.stringify({ app_key: 'ak_honest', events: Array.from({ length: 100 }, realistic) }))

/** As much alike as real events are. */
function realistic(): object {
  const ids = { hashed_daily_id: randomBytes(32).toString('hex'), session_id: randomUUID() }
  const properties = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`property_${at}`, Math.random()]))
  return event({ ...ids, properties })
}

test.for([
  ['br', 16_384, 1, emptyBrotli],
  ['br', 524_288, 1, emptyBrotli],
  ['deflate', 16_384, 0, emptyZlib],
  ['deflate', 524_288, 0, emptyZlib],
  ['gzip', 16_384, 0, emptyGzip],
  ['gzip', 524_288, 0, emptyGzip],
  ['gzip', 16_384, 7, thinGzip],
  ['gzip', 524_288, 7, thinGzip],
  ['gzip', 524_288, 20, thinGzip],
] as const)(
  '%s, %i bytes in blocks of %i blanks: honest bodies are accepted',
  async ([encoding, bytes, blanks, make]) => {
    const body = make(bytes, blanks)
    const statuses = new Set<number>()
    const attacks: Promise<unknown>[] = []
    const attack = (): void => {
      const sent = post(hostile.service, body, { 'Content-Encoding': encoding })
      attacks.push(sent.then(({ status }) => statuses.add(status)))
    }
    const timer = setInterval(attack, INTERVALS_MS[bytes])
    let accepted = 0
    for (let count = 0; count < HONEST; count++) {
      const honest = count % 2 === 0 ? gzipSync(batch('ak_honest', 16)) : LARGE
      if ((await post(hostile.service, honest, { 'Content-Encoding': 'gzip' })).status === 202) accepted += 1
      await sleep(10)
    }
    clearInterval(timer)
    await Promise.all(attacks)
    expect(accepted / HONEST).toBeGreaterThanOrEqual(LEAST_ACCEPTED)
    // What they hold is no JSON, or too much, once there is time to look.
    expect([...statuses].filter((status) => ![400, 413, 503].includes(status))).toEqual([])
    await expectUnharmed(hostile.service)
  },
)
