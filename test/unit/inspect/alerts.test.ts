import { expect, it } from 'vitest'
import { alertsSince } from '../../../src/inspect/alerts.ts'
import { anAlert } from './reports.ts'

function id(number: number): string {
  return `1f5fa598-cf1b-5824-9f70-2c589dff94d${number}`
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
