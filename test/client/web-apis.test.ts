// Whatever a page and its other scripts do to what the client asks of the browser: it throws nothing, sends what can be sent,
// and reports what cannot. web-apis.long.test.ts runs the same rows in a real browser.

import { beforeAll, describe, expect, it } from 'vitest'
import { AWAY, BROKEN, type Broken, PRELUDE, startCode } from './support/broken.ts'
import { createDouble } from './support/double.ts'
import { buildScript, createFakeBrowser } from './support/fake-browser.ts'
import { DatedTimers } from './support/rig.ts'

const SECOND_MS = 1000
const URL_OF_SERVICE = 'https://events.example.com'
/** By the real clock: what the browser compresses takes a thread of its own, which a busy machine lets wait. */
const LONGEST_MS = 20_000

interface Seen {
  readonly thrown: string[]
  readonly dropped: string[]
  readonly held: string[]
}

let script: string

beforeAll(async () => {
  script = await buildScript()
})

/** Streams and promises take turns of their own, for which manual timers do not wait. */
async function takeTurns(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
}

async function play(row: Broken) {
  const timers = new DatedTimers()
  timers.startMs = Date.now()
  const double = createDouble({ nowMs: () => timers.nowMs() })
  const browser = createFakeBrowser(timers, double, row.frame ? 'null' : 'https://shop.example.com')
  const step = async (): Promise<void> => {
    browser.run('void client.flush().catch(note)')
    await takeTurns()
    await timers.pass(SECOND_MS)
    await takeTurns()
  }
  const run = (code: string): unknown => browser.run(`{ ${code} }`)
  browser.run(PRELUDE)
  if (row.later) browser.run(AWAY)
  else run(row.code)
  browser.run(`${script}; ${startCode(`${URL_OF_SERVICE}/api/v1/events`, URL_OF_SERVICE, 'row', row)}`)
  if (row.later) {
    await step()
    run(row.code)
    browser.run('away = false')
  }
  const seen = browser.run('seen') as Seen
  const names = (): string[] =>
    [...double.stored.values()].flatMap(({ events }) => events.map((event) => event.name)).toSorted()
  const isOver = (): boolean =>
    names().length >= 2 + (row.options && 'pageViews' in row.options ? 1 : 0) ||
    seen.dropped.length > 0 ||
    (row.ends === 'held' && seen.held.includes('no_answer'))
  const untilMs = performance.now() + LONGEST_MS
  while (!isOver() && performance.now() < untilMs) await step()
  // What would come twice, or be dropped late, has time to.
  if (row.ends !== 'held') await step()
  return { browser, seen, names, double }
}

describe('where a page has broken what the client uses', () => {
  it('tries more than forty kinds of it, each named once', () => {
    expect(new Set(BROKEN.map(({ what }) => what)).size).toBe(BROKEN.length)
    expect(BROKEN.length).toBeGreaterThan(40)
  })

  it.each(BROKEN.map((row) => [row.what, row.ends, row] as const))('%s: %s', async (_what, ends, row) => {
    const { browser, seen, names } = await play(row)
    const sent = ['row large', 'row small']
    if (ends === 'held') {
      expect([...seen.dropped]).toEqual([])
      expect(new Set(seen.held)).toEqual(new Set(['no_answer']))
      browser.end()
      expect(names()).toEqual(sent)
    } else if (ends === 'invalid') expect([...seen.dropped]).toEqual(['invalid', 'invalid'])
    else {
      expect(names().filter((name) => name.startsWith('row'))).toEqual(sent)
      expect([...seen.dropped]).toEqual([])
    }
    expect([...seen.thrown]).toEqual([])
  })
})
