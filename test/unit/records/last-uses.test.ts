import { expect, it } from 'vitest'
import type { AppRecord } from '../../../src/apps/app-record.ts'
import type { AppRecords } from '../../../src/records/app-records.ts'
import { LastUses } from '../../../src/records/last-uses.ts'
import { ManualTimers } from '../../support/timers.ts'

type EditOne = AppRecords['editOne']

function keyOf(appId: string): { hash: string; usedAtMs: null } {
  return { hash: `hash of ${appId}`, usedAtMs: null }
}

function started() {
  const timers = new ManualTimers()
  const records = new Map<string, AppRecord>(
    ['shop', 'other'].map((appId) => {
      const read_keys = [
        { ...keyOf(appId), session_key: '' },
        { hash: 'unused', session_key: '' },
      ]
      return [appId, { app_id: appId, read_keys } as unknown as AppRecord]
    }),
  )
  const calls: string[] = []
  const results: unknown[] = []
  const problems: string[] = []
  let opened = 0
  const state = { bad: '', hold: Promise.resolve() }
  const editOne: EditOne = async (appId, change) => {
    calls.push(appId)
    await state.hold
    if (appId === state.bad) throw new Error('away')
    const next = change(records.get(appId))
    results.push(next)
    if (next !== 'same' && next !== null) records.set(appId, next)
  }
  const uses = new LastUses({
    withRecords: async (use) => {
      opened += 1
      await use({ editOne })
    },
    mayWrite: () => true,
    timers,
    onProblem: (problem) => problems.push(problem),
  })
  const use = (appId: string): void => uses.note({ app: { appId }, key: keyOf(appId) })
  const usedAt = (appId: string) => JSON.parse(JSON.stringify(records.get(appId)?.read_keys))[0].last_used_at
  return { timers, uses, use, usedAt, records, calls, results, problems, state, opened: () => opened }
}

it('edits the record of each app once an hour, and opens the records once for what was gathered', async () => {
  const { timers, use, usedAt, calls, opened } = started()
  for (const appId of ['shop', 'other', 'shop', 'gone']) use(appId)
  await timers.pass(2000)
  use('shop')
  await timers.pass(2000)
  expect([calls, opened()]).toEqual([['shop', 'other', 'gone'], 1])
  expect(usedAt('shop')).toBe('1970-01-01T00:00:00Z')
  await timers.pass(3_600_000)
  use('shop')
  await timers.pass(2000)
  expect([usedAt('shop'), usedAt('other')]).toEqual(['1970-01-01T01:00:00Z', '1970-01-01T00:00:00Z'])
})

it('does one edit at a time', async () => {
  const { timers, use, calls, state, opened } = started()
  let free = (): void => {}
  state.hold = new Promise((resolve) => {
    free = resolve
  })
  use('shop')
  await timers.pass(2000)
  use('other')
  await timers.pass(5000)
  expect([calls, opened()]).toEqual([['shop'], 1])
  free()
  await timers.pass(0)
  await timers.pass(2000)
  expect([calls, opened()]).toEqual([['shop', 'other'], 1])
})

it('tries again what could not be written, the bad one last', async () => {
  const { timers, uses, use, usedAt, calls, problems, state } = started()
  state.bad = 'shop'
  use('shop')
  use('other')
  await timers.pass(2000)
  expect([calls, problems]).toEqual([['shop'], ['away']])
  await timers.pass(60_000)
  expect([usedAt('other'), calls]).toEqual(['1970-01-01T00:00:00Z', ['shop', 'other', 'shop']])
  state.bad = ''
  await timers.pass(60_000)
  expect(usedAt('shop')).toBe('1970-01-01T00:00:00Z')
  await timers.pass(600_000)
  expect(calls).toHaveLength(4)
  uses.stop()
})

it('writes no hour over the same one or a later one, which another node has written', async () => {
  const { timers, uses, use, usedAt, records, results, state } = started()
  const writtenBy = (hour: string): void => {
    const record = records.get('shop') ?? expect.fail()
    const read_keys = (record.read_keys ?? []).map((key) => Object.assign({}, key, { last_used_at: hour }))
    records.set('shop', { ...record, read_keys })
  }
  writtenBy('1970-01-01T00:00:00Z')
  use('shop')
  await timers.pass(2000)
  expect(results).toEqual(['same'])
  state.bad = 'shop'
  await timers.pass(3_600_000)
  use('shop')
  await timers.pass(2000)
  writtenBy('1970-01-01T02:00:00Z')
  state.bad = ''
  await timers.pass(60_000)
  expect([usedAt('shop'), results]).toEqual(['1970-01-01T02:00:00Z', ['same', 'same']])
  uses.stop()
})
