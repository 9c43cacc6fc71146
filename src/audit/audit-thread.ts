// The thread of the audit: connections of its own, so that reading the stream holds up no request. It ends when it is
// told to, or with its process.

import { parentPort, workerData } from 'node:worker_threads'
import { systemTimers } from '../lib/timers.ts'
import { NatsLink } from '../nats/connection.ts'
import { openRedis } from '../redis/connection.ts'
import { Auditor, type AuditState } from './auditor.ts'

/** What the thread is given at its start. */
export interface AuditThreadData {
  readonly nodeId: string
  readonly partitions: number
  readonly replicas: number
  readonly redisUrl: string
  readonly natsUrl: string
}

export type AuditThreadMessage =
  | { readonly kind: 'round'; readonly state: AuditState }
  | { readonly kind: 'notice'; readonly message: string; readonly level?: 'info' }

const { nodeId, partitions, replicas, redisUrl, natsUrl } = workerData as AuditThreadData
const tell = (message: AuditThreadMessage): void => parentPort?.postMessage(message, [])
// The front end tells of outages: it goes by the same servers.
const redis = openRedis({ url: redisUrl, onNotice: () => {} })
const nats = new NatsLink({ url: natsUrl, timers: systemTimers, onUp: () => {}, onDown: () => {} })
const auditor = new Auditor({
  nodeId,
  partitions,
  replicas,
  redis,
  connection: () => nats.connection,
  timers: systemTimers,
  onNotice: (message, level) => tell({ kind: 'notice', message, ...(level === undefined ? {} : { level }) }),
  onRound: (state) => tell({ kind: 'round', state }),
})

parentPort?.once('message', () => void stop())

async function stop(): Promise<void> {
  await auditor.stop()
  await nats.stop()
  await redis.stop()
  parentPort?.close()
}
