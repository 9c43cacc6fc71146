import { expect, it } from 'vitest'
import { OwnInquiries } from '../../../src/console/inquiries.ts'
import { ManualTimers } from '../../support/timers.ts'

/** Arrays in arrays: the explainer takes most of a second for half a megabyte of them. */
const SLOW = Buffer.from(`{"app_key":"ak_x","x":[${`${'['.repeat(60)}${']'.repeat(60)},`.repeat(4200)}1]}`)

function inquiries(): OwnInquiries {
  const own = new OwnInquiries(new ManualTimers(), async () => [])
  own.stores = {
    apps: { find: () => 'unknown', all: () => [] },
    readUsages: () => [],
    find: async () => {
      throw new Error('no batch is looked for here')
    },
  }
  return own
}

it('reads a body to explain in another thread, so that no request waits for it', async () => {
  let isAnswered = false
  const answer = inquiries()
    .answer({ name: 'explain', query: '', body: SLOW })
    .finally(() => {
      isAnswered = true
    })
  // No other thread can be heard in these turns.
  for (let turn = 0; turn < 1000; turn++) await Promise.resolve()
  expect(isAnswered).toBe(false)
  const { status, json } = await answer
  expect([status, (JSON.parse(json) as { code: string }).code]).toEqual([200, 'invalid_app_key'])
})

it('explains one body at a time', async () => {
  const own = inquiries()
  const [first, second] = await Promise.all([1, 2].map(() => own.answer({ name: 'explain', query: '', body: SLOW })))
  expect([first.status, second.status]).toEqual([200, 503])
})
