// Starts the thread that reads the app file, and waits for what it says, for so long and no longer.

import { Worker } from 'node:worker_threads'
import { errorMessage } from '../../lib/errors.ts'
import type { AppsRead, ReaderData } from './apps-reader.ts'

/** The same from src/ and from dist/: a thread runs the built file. */
const READER = new URL('../../../dist/apps/file/apps-reader.js', import.meta.url)

/** 100,000 apps take a seventh of it for a moment. */
const MAX_HEAP_MB = 1024

export interface AppsThread {
  /** Never rejects: a thread that fails is a file that cannot be used. 'late': it was ended before it had one. */
  readonly answer: Promise<AppsRead | { readonly kind: 'late' }>
  /** Once the thread is gone. One that waits for a disk may take until the disk answers. */
  readonly ended: Promise<void>
  /** Ends it before its answer. */
  stop(): void
}

export function startAppsThread(data: ReaderData, timeoutMs: number): AppsThread {
  let worker: Worker
  try {
    worker = new Worker(READER, { workerData: data, resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB } })
  } catch (error) {
    return { answer: Promise.resolve(failed(error)), ended: Promise.resolve(), stop: () => {} }
  }
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
  const stop = (): void => void worker.terminate()
  const answer = new Promise<AppsRead | { readonly kind: 'late' }>((resolve) => {
    const timer = setTimeout(() => {
      stop()
      resolve({ kind: 'late' })
    }, timeoutMs)
    const settle = (read: AppsRead): void => {
      clearTimeout(timer)
      resolve(read)
    }
    worker.once('message', settle)
    worker.once('error', (error) => settle(failed(error)))
    worker.once('exit', () => settle(failed('the thread ended before its answer')))
  })
  return { answer, ended, stop }
}

function failed(error: unknown): AppsRead {
  return { kind: 'mistakes', mistakes: [`reading it failed: ${errorMessage(error)}`], identity: null }
}
