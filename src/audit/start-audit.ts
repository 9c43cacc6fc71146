// Starts the audit's thread, keeps its last state, and restarts it when it fails.

import { Worker } from 'node:worker_threads'
import type { AppDirectory } from '../apps/app.ts'
import type { Alert } from '../contract/alert.ts'
import { errorMessage } from '../lib/errors.ts'
import type { OnNotice } from '../lib/notice.ts'
import type { AuditThreadData, AuditThreadMessage } from './audit-thread.ts'
import type { AuditState } from './auditor.ts'
import type { AppAlertLimits } from './partition-audit.ts'

/** A thread runs the built file, whether this runs from src/ or dist/. */
const THREAD = new URL('../../dist/audit/audit-thread.js', import.meta.url)
/** 100,000 apps need 1/5 of it. */
const MAX_HEAP_MB = 1024
const RESTART_MS = 5000
const STOP_MS = 2000

export interface Audit {
  /** After the last round; null: no round has ended yet. */
  readonly state: AuditState | null
  stop(): Promise<void>
}

export interface AuditOptions {
  readonly onNotice: OnNotice
  readonly onAlert: (alert: Alert) => void
  readonly apps: Pick<AppDirectory, 'findById'>
}

export function startAudit(data: AuditThreadData, options: AuditOptions): Audit {
  return new AuditThread(data, options)
}

class AuditThread implements Audit {
  state: AuditState | null = null
  readonly #data: AuditThreadData
  readonly #options: AuditOptions
  #worker: Worker
  #timer: NodeJS.Timeout | null = null
  #isStopping = false

  constructor(data: AuditThreadData, options: AuditOptions) {
    this.#data = data
    this.#options = options
    this.#worker = this.#start()
  }

  #start(): Worker {
    const worker = new Worker(THREAD, {
      workerData: this.#data,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    })
    worker.unref()
    worker.on('message', (message: AuditThreadMessage) => {
      if (message.kind === 'round') this.state = message.state
      else if (message.kind === 'notice') this.#options.onNotice(message.message, message.level)
      else if (message.kind === 'alert') this.#options.onAlert(message.alert)
      else worker.postMessage({ question: message.question, limits: this.#limitsOf(message.appIds) }, [])
    })
    worker.on('error', (error) => {
      this.#options.onNotice(`the audit thread failed: ${errorMessage(error)}; restarting it in ${RESTART_MS / 1000} s`)
    })
    worker.once('exit', () => {
      if (this.#isStopping) return
      this.#timer = setTimeout(() => (this.#worker = this.#start()), RESTART_MS)
      this.#timer.unref()
    })
    return worker
  }

  #limitsOf(appIds: readonly string[]): AppAlertLimits[] {
    return appIds.map((appId) => {
      const app = this.#options.apps.findById(appId)
      if (typeof app === 'string') return null
      const { alertSteps, eventsPerDay, eventsPerMonth, billingAnchorMs } = app
      return { alertSteps, eventsPerDay, eventsPerMonth, billingAnchorMs }
    })
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    const worker = this.#worker
    const ended = new Promise((resolve) => worker.once('exit', resolve))
    worker.postMessage('stop', [])
    const timeout = setTimeout(() => void worker.terminate(), STOP_MS)
    if (worker.threadId !== -1) await ended
    clearTimeout(timeout)
  }
}
