// What real consumers in stream-search.test.ts cannot show everywhere, or each time: several subjects, which not every server
// gives a consumer, and a consumer that is made in the millisecond in which the message is stored.

import { AckPolicy, type ConsumerConfig, DeliverPolicy } from '@nats-io/jetstream'
import { describe, expect, it } from 'vitest'
import { stateOf } from '../../../../../src/queue/stream/read/consumer-states.ts'

const MESSAGE = { subject: 'sluice.events.7', sequence: 5, storedAtMs: 1_000 }
const FROM_THE_START = { consumer_seq: 0, stream_seq: 0 }

function stateWith(filters: Partial<ConsumerConfig>): string {
  const config = { ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.All, ...filters } as ConsumerConfig
  const known = { created: new Date(0).toISOString(), delivered: FROM_THE_START, ack_floor: FROM_THE_START }
  return stateOf({ ...known, config } as Parameters<typeof stateOf>[0], MESSAGE)
}

it.each<[string, Partial<ConsumerConfig>]>([
  ['no filter', {}],
  ['its own subject', { filter_subject: 'sluice.events.7' }],
  ['one token for any', { filter_subject: 'sluice.*.7' }],
  ['any rest', { filter_subject: 'sluice.>' }],
  ['several, the last of which is its own', { filter_subjects: ['sluice.events.1', 'sluice.events.7'] }],
  ['several, one of which has any token', { filter_subjects: ['sluice.events.*', 'other.>'] }],
])('a message waits for a consumer with %s', (_filters, config) => {
  expect(stateWith(config)).toBe('waiting')
})

it.each<[string, Partial<ConsumerConfig>]>([
  ['another subject', { filter_subject: 'sluice.events.70' }],
  ['more tokens', { filter_subject: 'sluice.events.7.*' }],
  ['more tokens than any rest', { filter_subject: 'sluice.events.7.>' }],
  ['fewer tokens', { filter_subject: 'sluice.events' }],
  ['several, none of which is its own', { filter_subjects: ['sluice.events.1', 'sluice.events.2'] }],
])('a message never reaches a consumer with %s', (_filters, config) => {
  expect(stateWith(config)).toBe('other subject')
})

describe('a consumer that begins with new messages, and was made in the millisecond in which the message was stored', () => {
  const created = new Date(MESSAGE.storedAtMs).toISOString()
  const stateBegunAt = (place: number): string => {
    const begun = { consumer_seq: 0, stream_seq: place }
    const config = { ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.New } as ConsumerConfig
    return stateOf({ config, created, delivered: begun, ack_floor: begun } as Parameters<typeof stateOf>[0], MESSAGE)
  }

  it('skipped the message where it began behind it', () => {
    expect(stateBegunAt(MESSAGE.sequence)).toBe('skipped')
  })

  it('is to get the message where it began before it', () => {
    expect(stateBegunAt(MESSAGE.sequence - 1)).toBe('waiting')
  })
})
