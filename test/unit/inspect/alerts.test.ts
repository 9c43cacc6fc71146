import { expect, it } from 'vitest'
import type { Alert } from '../../../src/contract/alert.ts'
import { type AlertQuestion, alertsSince } from '../../../src/inspect/alerts.ts'
import { anAlert } from './reports.ts'

function id(number: number): string {
  return `1f5fa598-cf1b-5824-9f70-2c589${String(number).padStart(7, '0')}`
}

it('whoever names the last one that is known gets those since, and what was stored a little late', async () => {
  const times = ['09:00:00', '09:59:30', '10:00:00', '10:05:00']
  const all = times.map((time, at) => anAlert({ id: id(at), at: `2026-11-24T${time}.000Z` }))
  const after = async (last: string) =>
    await alertsSince(async () => all, null, { since: null, after: last, limit: 1000 }, Date.parse(all[3].at))
  expect(await after(id(2))).toEqual({ alerts: [all[1], all[3]], more: false })
  expect(await after(id(9))).toEqual({ alerts: all, more: false })
  expect(await after('7')).toEqual({ mistake: 'after: must be the id of an alert' })
})

it('no answer has alerts that are older than 35 days, whatever is asked for', async () => {
  const all = ['2026-10-20T10:00:00.000Z', '2026-10-20T10:00:00.001Z'].map((at, number) =>
    anAlert({ id: id(number), at }),
  )
  const asked = async (since: string | null, after: string | null) =>
    await alertsSince(async () => all, null, { since, after, limit: 1000 }, Date.parse('2026-11-24T10:00:00.001Z'))
  const kept = { alerts: [all[1]], more: false }
  expect(await asked(null, null)).toEqual(kept)
  expect(await asked('2026-01-01T00:00:00Z', null)).toEqual(kept)
  expect(await asked(null, id(0))).toEqual(kept)
})

/** All pages, of which `next` asks for the one after an alert. */
async function pages(
  all: readonly Alert[],
  limit: number,
  next: (last: Alert) => Partial<AlertQuestion>,
): Promise<(readonly Alert[])[]> {
  const found: (readonly Alert[])[] = []
  for (let asked: Partial<AlertQuestion> = {}; found.length < 100; ) {
    const question = { since: null, after: null, limit, ...asked }
    const page = await alertsSince(async () => all, null, question, Date.parse('2026-11-24T10:01:00.000Z'))
    if (page === 'away' || 'mistake' in page) throw new Error('no page')
    found.push(page.alerts)
    if (!page.more) return found
    asked = next(page.alerts.at(-1) as Alert)
  }
  return found
}

it.each([
  // Of each millisecond five, as of an app that reaches all of its steps at once.
  [20, 1],
  [20, 3],
  [20, 5],
  [20, 1000],
  [3000, 1000],
])('%i alerts of one minute are all read in pages of %i, each of which gets further', async (count, limit) => {
  const all = Array.from({ length: count }, (_, at) => {
    const time = new Date(Date.parse('2026-11-24T10:00:00.000Z') + Math.floor(at / 5)).toISOString()
    // Their ids are in no order of time.
    return anAlert({ id: id((at * 7919) % 10_000), at: time })
  })
  const ways: readonly ((last: Alert) => Partial<AlertQuestion>)[] = [
    ({ id: after }) => ({ after }),
    ({ at: since }) => ({ since }),
    ({ id: after }) => ({ after, since: '2026-11-24T10:00:00.000Z' }),
    ({ id: after, at: since }) => ({ after, since }),
  ]
  for (const next of ways) {
    const read = await pages(all.toReversed(), limit, next)
    expect(read.length).toBeLessThanOrEqual(count / limit + 1)
    expect(new Set(read.flat())).toEqual(new Set(all))
    const lasts = read.map((page) => page.at(-1)?.at ?? '')
    expect(new Set(lasts).size).toBe(read.length)
    expect(lasts).toEqual(lasts.toSorted())
  }
})

it('what was stored a little late comes beside a page, not in place of it', async () => {
  const times = ['09:59:30', '10:00:00', '10:00:10', '10:00:20']
  const all = times.map((time, at) => anAlert({ id: id(at), at: `2026-11-24T${time}.000Z` }))
  const question = { since: null, after: id(1), limit: 1 }
  const page = await alertsSince(async () => all, null, question, Date.parse(all[3].at))
  expect(page).toEqual({ alerts: [all[0], all[2]], more: true })
})
