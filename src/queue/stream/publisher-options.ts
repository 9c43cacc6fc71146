// Options of the shared queue.

import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import type { NatsAccess } from '../../nats/address.ts'
import type { Dial } from '../../nats/connection.ts'
import type { QueueRecord } from '../queue.ts'
import type { StreamKeeperOptions } from './stream-keeper.ts'

/** A batch that was sent, and may be stored or not. */
export interface Doubt {
  /** Of a keyed batch its batch id. Batches without a key share the entry of their message and minute. */
  readonly name: string
  /** Under which JetStream stores it at most once. */
  readonly messageId: string
  readonly partition: number
  /** It is charged to this minute, so many events. */
  readonly minute: number
  readonly events: number
}

export interface PublisherOptions
  extends Pick<StreamKeeperOptions, 'newStream' | 'measureIntervalMs' | 'fillers' | 'serverStorage'> {
  readonly nats: NatsAccess | string
  /** 8 to 16 lower-case hex digits, new for each process, so that the ids of its messages are unique. */
  readonly nodeId: string
  readonly partitions: number
  readonly ackTimeoutMs?: number
  /** Default: those of this process. */
  readonly timers?: Timers
  /** A number from 0 to 1 (exclusive), for jitter. */
  readonly random?: () => number
  /** Opens a connection. Default: over a socket. */
  readonly dial?: Dial
  /** Called for each stored message, with the number of its records. */
  readonly onCommit?: (records: number) => void
  /** Called for each record that ends in doubt, before that is said. */
  readonly onDoubt?: (doubt: Doubt, record: QueueRecord) => void
  /** So many keyed records go alone where the stream takes atomic batches (keyed-group.ts). Default: all. */
  readonly keyedAlone?: () => number
  /** A spool keeps what the stream does not take: for the words of the notices. */
  readonly isSpooled?: boolean
  /** Gets a sentence for the log when the state changes. */
  readonly onNotice?: OnNotice
}
