// Decides about what is in doubt before its minute closes, by an empty message under the same id: "duplicate" says that the
// batch is stored, "stored" that it never will be, since JetStream drops it as a duplicate if it still arrives.

import type { NatsConnection } from '@nats-io/transport-node'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../contract/bounds.ts'
import { acceptedText, BURNT, doubtsKey, idempotencyKey } from '../limits/shared/take.ts'
import { probe } from '../queue/stream/probe.ts'
import { recordIn } from '../queue/stream/read/stream-original.ts'
import { DUPLICATE_WINDOW_MINUTES } from '../queue/stream/stream.ts'
import type { RedisLink } from '../redis/link.ts'
import { fields, integer, textOrNull } from '../redis/reply.ts'

/** Asked about at one time. */
const MAX_AT_ONCE = 100
const VALUE = /^(\d{1,10}) (\d{1,3}) (\S+)$/
/** Two less than the window: a doubt may be of its minute's first second, and that minute closes some time behind its end. */
const MAX_AGE_MINUTES = DUPLICATE_WINDOW_MINUTES - 2

interface Doubt {
  /** The batch id, where the batch has a key. */
  readonly name: string
  readonly minute: number
  readonly messageId: string
}

/** burnt: the batch is not stored and never will be. A number: the events of the stored batch; 0: it had no key. */
type Decision = number | 'burnt' | 'unknown'

export class DoubtSettler {
  readonly #redis: RedisLink
  /** Given up, since the duplicate window can no longer tell. */
  unsettled = 0

  constructor(redis: RedisLink) {
    this.#redis = redis
  }

  /** Settles the doubts of the minutes up to `closableMinute`. Returns the last minute that may close now. */
  async settle(partition: number, closableMinute: number, connection: NatsConnection): Promise<number> {
    // Without Redis nobody knows of them.
    const doubts = await this.#redis
      .call((client) => client.hgetall(doubtsKey(partition)), fields)
      .catch(() => 'away' as const)
    if (doubts === 'away') return closableMinute
    const due: Doubt[] = []
    for (const [name, text] of Object.entries(doubts)) {
      const found = VALUE.exec(text)
      if (found === null) await this.#remove(partition, name)
      else if (Number(found[1]) <= closableMinute) due.push({ name, minute: Number(found[1]), messageId: found[3] })
    }
    let open: Doubt[] = []
    while (due.length > 0 && open.length === 0) {
      const some = due.splice(0, MAX_AT_ONCE)
      const isSettled = await Promise.all(
        some.map((doubt) => this.#settleOne(partition, doubt, closableMinute, connection)),
      )
      open = some.filter((_, at) => !isSettled[at])
    }
    if (open.length === 0) return closableMinute
    return [...open, ...due].reduce((last, { minute }) => Math.min(last, minute - 1), closableMinute)
  }

  /** false: it holds its minute open. */
  async #settleOne(
    partition: number,
    { name, minute, messageId }: Doubt,
    closableMinute: number,
    connection: NatsConnection,
  ): Promise<boolean> {
    if (closableMinute - minute > MAX_AGE_MINUTES) {
      this.unsettled++
      return this.#remove(partition, name)
    }
    const decision = await decide(connection, name, messageId).catch(() => 'unknown' as const)
    if (decision === 'unknown') return false
    const isKeyed = !name.includes(':')
    if (isKeyed) {
      const text = decision === 'burnt' ? BURNT : acceptedText(decision, 0)
      const keptSeconds = decision === 'burnt' ? DUPLICATE_WINDOW_MINUTES * 60 : IDEMPOTENCY_WINDOW_SECONDS
      const key = idempotencyKey(partition, name)
      // Not over the claim of a retry under way, which gets the same answer from the stream.
      await this.#redis.call((client) => client.set(key, text, 'EX', keptSeconds, 'NX'), textOrNull).catch(() => null)
    }
    return this.#remove(partition, name)
  }

  async #remove(partition: number, name: string): Promise<true> {
    await this.#redis.call((client) => client.hdel(doubtsKey(partition), name), integer).catch(() => null)
    return true
  }
}

async function decide(connection: NatsConnection, name: string, messageId: string): Promise<Decision> {
  const probed = await probe(connection, messageId)
  return typeof probed === 'string' ? probed : (recordIn(probed.data, name)?.head.events ?? 0)
}
