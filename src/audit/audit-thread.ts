// The audit's thread. It has its own connections, so that reading the stream delays no request. It ends on any message
// from its parent, or with the process.

import { parentPort, workerData } from 'node:worker_threads'
import { systemTimers } from '../lib/timers.ts'
import type { NatsAccess } from '../nats/address.ts'
import { NatsLink } from '../nats/connection.ts'
import { openRedis } from '../redis/connection.ts'
import { Auditor, type AuditState } from './auditor.ts'

export interface AuditThreadData {
  readonly nodeId: string
  readonly partitions: number
  readonly replicas: number
  readonly redisUrl: string
  readonly nats: NatsAccess
}

export type AuditThreadMessage =
  | { readonly kind: 'round'; readonly state: AuditState }
  | { readonly kind: 'notice'; readonly message: string; readonly level?: 'info' | 'error' }

const { nodeId, partitions, replicas, redisUrl, nats: access } = workerData as AuditThreadData
const post = (message: AuditThreadMessage): void => parentPort?.postMessage(message, [])
// The front end logs outages: it uses the same servers.
const redis = openRedis({ url: redisUrl, onNotice: () => {} })
const nats = new NatsLink({ nats: access, timers: systemTimers, onUp: () => {}, onDown: () => {} })
const auditor = new Auditor({
  nodeId,
  partitions,
  replicas,
  redis,
  connection: () => nats.connection,
  timers: systemTimers,
  onNotice: (message, level) => post({ kind: 'notice', message, ...(level === undefined ? {} : { level }) }),
  onRound: (state) => post({ kind: 'round', state }),
})

parentPort?.once('message', () => void stop())

async function stop(): Promise<void> {
  await auditor.stop()
  await nats.stop()
  await redis.stop()
  parentPort?.close()
}
