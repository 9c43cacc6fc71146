// Options of the shared queue.

import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import type { NatsAccess } from '../../nats/address.ts'
import type { Dial } from '../../nats/connection.ts'
import type { StreamKeeperOptions } from './stream-keeper.ts'

export interface PublisherOptions extends Pick<StreamKeeperOptions, 'newStream' | 'measureIntervalMs'> {
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
  /** Gets a sentence for the log when the state changes. */
  readonly onNotice?: OnNotice
}
