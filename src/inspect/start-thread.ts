// Answers one question in a thread of its own: to read a body for `explain`, or the queue, may take seconds, which would
// hold up the requests of all clients.

import { Worker } from 'node:worker_threads'
import { UnavailableError } from '../lib/errors.ts'
import type { Timer, Timers } from '../lib/timers.ts'
import type { Tasks, ThreadAnswer } from './answer-thread.ts'

/** A thread runs the built file, whether this runs from src/ or dist/. */
const THREAD = new URL('../../dist/inspect/answer-thread.js', import.meta.url)
/** As much as the pool's explainer may use for a body. */
const MEMORY = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16 } as const
const TIMEOUT_MS = 10_000

/**
 * Rejects with an `UnavailableError` where the queue cannot be read or that takes too long, and with whatever else the thread threw.
 * `onRead`: how long there was a thread, however it ended. To start one costs more than most questions.
 */
export async function answerInThread<Name extends keyof Tasks>(
  name: Name,
  work: Parameters<Tasks[Name]>,
  timers: Timers,
  onRead: (readMs: number) => void = () => {},
): Promise<Awaited<ReturnType<Tasks[Name]>>> {
  const startedAtMs = timers.monotonicMs()
  const worker = new Worker(THREAD, { workerData: { name, work }, resourceLimits: MEMORY })
  let timer: Timer | null = null
  try {
    const told: ThreadAnswer = await new Promise((resolve, reject) => {
      timer = timers.setTimeout(() => reject(new UnavailableError('it takes too long to read')), TIMEOUT_MS)
      worker.once('message', resolve)
      worker.once('error', reject)
      worker.once('exit', () => reject(new Error('the thread ended before its answer')))
    })
    if ('unavailable' in told) throw new UnavailableError(told.unavailable)
    return told.answer as Awaited<ReturnType<Tasks[Name]>>
  } finally {
    if (timer !== null) timers.clear(timer)
    await worker.terminate()
    onRead(timers.monotonicMs() - startedAtMs)
  }
}
