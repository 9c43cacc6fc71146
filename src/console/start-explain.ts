// Reads a body for `explain` in a thread of its own: one of half a megabyte may take most of a second, which would hold up
// the requests of all clients.

import { Worker } from 'node:worker_threads'
import type { Timer, Timers } from '../lib/timers.ts'
import type { BodyVerdict } from './explain.ts'

/** A thread runs the built file, whether this runs from src/ or dist/. */
const THREAD = new URL('../../dist/console/explain-thread.js', import.meta.url)
/** As much as the pool's explainer may use for a body. */
const MEMORY = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16 } as const
const TIMEOUT_MS = 10_000

export interface ReadTask {
  readonly body: Uint8Array
  readonly appKey: string | null
  readonly nowMs: number
}

/** Rejects where the thread fails or takes too long. */
export async function judgeInThread(task: ReadTask, timers: Timers): Promise<BodyVerdict | null> {
  const worker = new Worker(THREAD, { workerData: task, resourceLimits: MEMORY })
  let timer: Timer | null = null
  try {
    return await new Promise((resolve, reject) => {
      timer = timers.setTimeout(() => reject(new Error('the body takes too long to read')), TIMEOUT_MS)
      worker.once('message', resolve)
      worker.once('error', reject)
      worker.once('exit', () => reject(new Error('the thread ended before its answer')))
    })
  } finally {
    if (timer !== null) timers.clear(timer)
    await worker.terminate()
  }
}
