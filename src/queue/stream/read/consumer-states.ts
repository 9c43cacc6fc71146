// Whether each durable consumer of the stream has had a message, from what NATS knows of the consumer.

import { AckPolicy, type ConsumerInfo, DeliverPolicy } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { ConsumerStateName } from '../../../contract/admin/words.ts'
import { managerOf } from '../../../nats/api.ts'
import { EVENTS_STREAM } from '../../../nats/store-names.ts'
import type { ConsumerState, StreamPlace } from '../../find/finding.ts'

/** The first ones by name. */
const MAX_CONSUMERS = 100
/** Consumers that are searched for durable ones: pages of 256. */
const MAX_PAGES = 4

type StoredMessage = Pick<StreamPlace, 'subject' | 'sequence' | 'storedAtMs'>

/** Rejects where JetStream does not answer. */
export async function consumerStates(connection: NatsConnection, message: StoredMessage): Promise<ConsumerState[]> {
  const manager = await managerOf(connection)
  const pages = manager.consumers.list(EVENTS_STREAM)
  const listed: ConsumerInfo[] = []
  for (let page = 0; page < MAX_PAGES; page++) {
    const infos = await pages.next()
    if (infos.length === 0) break
    listed.push(...infos)
  }
  return listed
    .filter(({ config }) => config.durable_name !== undefined)
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .slice(0, MAX_CONSUMERS)
    .map((info) => ({ name: info.name, state: stateOf(info, message) }))
}

type Known = Pick<ConsumerInfo, 'config' | 'created' | 'delivered' | 'ack_floor'>

export function stateOf(info: Known, { subject, sequence, storedAtMs }: StoredMessage): ConsumerStateName {
  const { config, delivered, ack_floor: floor } = info
  if (!takes(config, subject)) return 'other subject'
  if (beganBehind(info, sequence, storedAtMs)) return 'skipped'
  if (delivered.stream_seq < sequence) return 'waiting'
  // Such a consumer acknowledges nothing, and NATS does not know what became of what it sent.
  if (config.ack_policy === AckPolicy.None) return 'delivered'
  return floor.stream_seq >= sequence ? 'acknowledged' : 'delivered'
}

function takes({ filter_subject: filter, filter_subjects: filters }: ConsumerInfo['config'], subject: string): boolean {
  const wanted = filters ?? (filter === undefined || filter === '' ? [] : [filter])
  return wanted.length === 0 || wanted.some((pattern) => matches(pattern, subject))
}

/** By the rules of NATS: `*` is one token, `>` the rest. */
function matches(pattern: string, subject: string): boolean {
  const tokens = subject.split('.')
  const wanted = pattern.split('.')
  for (const [at, token] of wanted.entries()) {
    if (token === '>') return tokens.length > at
    if (at >= tokens.length || (token !== '*' && token !== tokens[at])) return false
  }
  return wanted.length === tokens.length
}

/** Whether the consumer was configured to begin with a later message than this one. */
function beganBehind({ config, created, delivered }: Known, sequence: number, storedAtMs: number): boolean {
  switch (config.deliver_policy) {
    case DeliverPolicy.StartSequence:
      return sequence < (config.opt_start_seq ?? 0)
    case DeliverPolicy.StartTime:
      return storedAtMs < Date.parse(config.opt_start_time ?? '')
    case DeliverPolicy.New:
    case DeliverPolicy.Last:
    case DeliverPolicy.LastPerSubject:
      // Before its first message a consumer is where it began; later only the times say that, to the millisecond.
      return delivered.consumer_seq === 0 ? delivered.stream_seq >= sequence : storedAtMs < Date.parse(created)
    case DeliverPolicy.All:
      return false
  }
}
