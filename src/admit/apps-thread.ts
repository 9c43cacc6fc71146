// Starts the thread that reads the app file, and waits for what it says.

import { Worker } from 'node:worker_threads'
import { errorMessage } from '../lib/errors.ts'
import type { AppsRead, ReaderData } from './apps-reader.ts'

/** The same from src/ and from dist/: a thread runs the built file. */
const READER = new URL('../../dist/admit/apps-reader.js', import.meta.url)

export interface AppsThread {
  /** Never rejects: a thread that fails is a file that cannot be used. */
  readonly answer: Promise<AppsRead>
  /** Ends it before its answer. */
  stop(): void
}

export function startAppsThread(data: ReaderData): AppsThread {
  let worker: Worker
  try {
    worker = new Worker(READER, { workerData: data })
  } catch (error) {
    return { answer: Promise.resolve(failed(error)), stop: () => {} }
  }
  const answer = new Promise<AppsRead>((resolve) => {
    worker.once('message', resolve)
    worker.once('error', (error) => resolve(failed(error)))
    worker.once('exit', () => resolve(failed('the thread ended before its answer')))
  })
  return { answer, stop: () => void worker.terminate() }
}

function failed(error: unknown): AppsRead {
  return { kind: 'mistakes', mistakes: [`reading it failed: ${errorMessage(error)}`], identity: null }
}
