// Options of the shared queue.

import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import type { Dial } from '../../nats/connection.ts'
import type { StreamKeeperOptions } from './stream-keeper.ts'

export interface JetStreamOptions extends Pick<StreamKeeperOptions, 'newStream' | 'measureIntervalMs'> {
  readonly url: string
  /** 8 to 16 hex digits, lower case, fresh for each process: it marks each message, and makes ids that none else has. */
  readonly nodeId: string
  readonly partitions: number
  readonly ackTimeoutMs?: number
  /** Default: those of this process. */
  readonly timers?: Timers
  /** A number from 0 up to 1, for jitter. */
  readonly random?: () => number
  /** Makes a connection; default: one to the server that `url` names. */
  readonly dial?: Dial
  /** Called for each message that became durable, with the records in it. */
  readonly onCommit?: (records: number) => void
  /** Gets a sentence for the log when something changes. */
  readonly onNotice?: OnNotice
}
