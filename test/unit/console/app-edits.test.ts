import { expect, it } from 'vitest'
import type { AppRecord } from '../../../src/apps/app-record.ts'
import { Refusal } from '../../../src/console/app-bodies.ts'
import { AppEdits } from '../../../src/console/app-edits.ts'
import { type AdminRequest, problem } from '../../../src/http/admin-routes.ts'
import type { AppRecords } from '../../../src/records/app-records.ts'

function recordOf(plan: string, lastUsedAt: string | null): AppRecord {
  const read_keys = [{ hash: 'h', session_key: '', last_used_at: lastUsedAt }]
  return { app_id: 'shop', plan, read_keys } as unknown as AppRecord
}

it('puts the record before back where the new one is refused, also after its read key was used', async () => {
  let stored: AppRecord | undefined = recordOf('100k', null)
  const editOne: AppRecords['editOne'] = async (_, change) => {
    const next = change(stored)
    if (next !== 'same') stored = next ?? undefined
  }
  const changes: object[] = []
  const edits = new AppEdits({
    withRecords: (use) => use({ editOne } as AppRecords),
    onChange: (change) => changes.push(change),
  })
  const taken = problem('bad_record', 'the key is taken')
  const request = { headers: {} } as AdminRequest
  const answer = await edits.edit(
    { request, appId: 'shop', caller: { mayWrite: true, by: 'test' } },
    () => recordOf('5m', null),
    {
      after: async () => {
        stored = recordOf('5m', '2026-11-22T14:00:00Z')
        return new Refusal(taken)
      },
    },
  )
  expect(answer).toEqual(taken)
  expect(stored).toMatchObject({ plan: '100k' })
  expect(changes).toEqual([])
})
