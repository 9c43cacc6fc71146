// The judge of what is stored, fed with what a fault may leave behind.

import { expect, it } from 'vitest'
import { type Sent, StoredOnce, storedFaults } from '../../support/stored-once.js'

const record = (id: string, appId = 'shop', events: unknown[] = [{}]) => ({ batch_id: id, app_id: appId, events })
const accepted: Sent = { id: 'a', accepted: true }
const [refused, unheard] = [
  { id: 'a', accepted: false },
  { id: 'a', accepted: false, mayBeStored: true },
]

it.each<[string, Sent[], ReturnType<typeof record>[], string[]]>([
  ['each 202 is there, and others too', [accepted], [record('a'), record('other')], []],
  ['a 202 is not there', [accepted], [record('other')], ['202, but not in the queue: a']],
  ['a 202 is there twice', [accepted], [record('a'), record('a'), record('a')], ['stored twice: a']],
  ['one of nobody is there twice', [], [record('x'), record('x'), record('x')], ['stored twice: x']],
  ['it is another app’s', [{ ...accepted, appId: 'shop' }], [record('a', 'b')], ['stored for another app: a']],
  [
    'an event is missing',
    [{ ...accepted, isWhole: ({ length }) => length === 2 }],
    [record('a')],
    ['stored with other events than were sent: a'],
  ],
  ['what was refused is there', [refused], [record('a')], ['stored, though every answer refused it: a']],
  ['what was refused is not there', [refused, { ...unheard, id: 'b' }], [], []],
  ['what nobody heard of is there', [unheard], [record('a')], []],
  ['two batches have one id', [accepted, accepted], [record('a')], ['one batch id for two batches: a']],
])('%s', (_, sent, records, wrong) => {
  const faults: string[] = []
  const once = new StoredOnce(sent, (kind, id) => faults.push(`${kind}: ${id}`))
  for (const each of records) once.take(each)
  const unacknowledged = once.end()
  expect(faults).toEqual(wrong)
  expect(unacknowledged.length).toBe(sent[0] === unheard ? 1 : 0)
})

it('of ids alone says the same', () => {
  expect(storedFaults([record('a'), record('b'), record('b')], ['a', 'b', 'c'])).toEqual([
    'stored twice: b',
    '202, but not in the queue: c',
  ])
})
