// The audit's thread. It has its own connections, so that reading the stream delays no request. It ends on any message
// 'stop' of its parent, or with the process.

import { parentPort, workerData } from 'node:worker_threads'
import type { Alert } from '../contract/alert.ts'
import { systemTimers } from '../lib/timers.ts'
import type { NatsAccess } from '../nats/address.ts'
import { NatsLink } from '../nats/connection.ts'
import type { RedisAccess } from '../redis/address.ts'
import { openRedis } from '../redis/connection.ts'
import { Auditor, type AuditState } from './auditor.ts'
import type { AppAlertLimits } from './partition-audit.ts'

export interface AuditThreadData {
  readonly nodeId: string
  readonly partitions: number
  readonly replicas: number
  readonly redis: RedisAccess
  readonly nats: NatsAccess
}

export type AuditThreadMessage =
  | { readonly kind: 'round'; readonly state: AuditState }
  | { readonly kind: 'alert'; readonly alert: Alert }
  /** To be answered by an `AuditThreadAnswer`. */
  | { readonly kind: 'limits'; readonly question: number; readonly appIds: readonly string[] }
  | { readonly kind: 'notice'; readonly message: string; readonly level?: 'info' | 'error' }

export type AuditThreadAnswer = 'stop' | { readonly question: number; readonly limits: readonly AppAlertLimits[] }

const { nodeId, partitions, replicas, redis: redisAccess, nats: access } = workerData as AuditThreadData
const post = (message: AuditThreadMessage): void => parentPort?.postMessage(message, [])
// The acceptor logs outages: it uses the same servers.
const redis = openRedis({ redis: redisAccess, onNotice: () => {} })
const nats = new NatsLink({ nats: access, timers: systemTimers, onUp: () => {}, onDown: () => {} })
/** One at a time. */
const asked = new Map<number, (limits: readonly AppAlertLimits[]) => void>()
let questions = 0
const auditor = new Auditor({
  nodeId,
  partitions,
  replicas,
  redis,
  connection: () => nats.connection,
  timers: systemTimers,
  onNotice: (message, level) => post({ kind: 'notice', message, ...(level === undefined ? {} : { level }) }),
  askLimits: (appIds) =>
    new Promise((resolve) => {
      asked.set(++questions, resolve)
      post({ kind: 'limits', question: questions, appIds })
    }),
  onAlert: (alert) => post({ kind: 'alert', alert }),
  onRound: (state) => post({ kind: 'round', state }),
})

parentPort?.on('message', (answer: AuditThreadAnswer) => {
  if (answer === 'stop') return void stop()
  asked.get(answer.question)?.(answer.limits)
  asked.delete(answer.question)
})

async function stop(): Promise<void> {
  await auditor.stop()
  await nats.stop()
  await redis.stop()
  parentPort?.close()
}
