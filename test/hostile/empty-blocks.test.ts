// Compressed bodies that unfold to next to nothing, or to little for the time that they take, one after the other on many
// connections, without an app's key: honest compressed bodies, sent again where they are refused, go before them. Bodies are
// counted, so that it does not matter how fast the machine is.

import { randomBytes, randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { emptyBrotli, emptyGzip, emptyZlib, thinGzip } from '../../load/fuzz/empty-blocks.js'
import { batch, event, post } from '../support/client.ts'
import { expectUnharmed, hostileService } from '../support/hostile.ts'
import { eventually } from '../support/service.ts'

const hostile = hostileService()
const HONEST = 10
const ATTACKERS = 32
/** Meanwhile. An honest body that waited for its turn behind all others would let twice as many of them go before it. */
const MOST_DECIDED = (HONEST * ATTACKERS) / 2
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
  '%s, %i bytes in blocks of %i blanks: honest bodies go before them',
  async ([encoding, bytes, blanks, make]) => {
    const body = make(bytes, blanks)
    const statuses: number[] = []
    const over = new AbortController()
    const attack = async (): Promise<void> => {
      while (!over.signal.aborted)
        statuses.push((await post(hostile.service, body, { 'Content-Encoding': encoding })).status)
    }
    const attacks = Array.from({ length: ATTACKERS }, attack)
    await eventually('one is answered', () => statuses.length > 0)
    const before = statuses.length
    const decided = (): number => statuses.slice(before).filter((status) => status !== 503).length
    let accepted = 0
    while (accepted < HONEST && decided() < MOST_DECIDED) {
      const honest = accepted % 2 === 0 ? gzipSync(batch('ak_honest', 16)) : LARGE
      if ((await post(hostile.service, honest, { 'Content-Encoding': 'gzip' })).status === 202) accepted += 1
    }
    over.abort()
    await Promise.all(attacks)
    expect(accepted).toBe(HONEST)
    // What they hold is no JSON, or too much, once there is time to look.
    expect(statuses.filter((status) => ![400, 413, 503].includes(status))).toEqual([])
    await expectUnharmed(hostile.service)
  },
)
