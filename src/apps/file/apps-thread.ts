// Starts the thread that reads the app file, makes its records into apps slice by slice, and waits for them up to a timeout.

import { Worker } from 'node:worker_threads'
import { errorMessage } from '../../lib/errors.ts'
import { AppIndex } from '../app-index.ts'
import { appOf } from '../app-record.ts'
import type { ReaderData, ReaderMessage } from './apps-reader.ts'
import type { AppsText } from './apps-text.ts'

/** A thread runs the built file, whether this runs from src/ or dist/. */
const READER = new URL('../../../dist/apps/file/apps-reader.js', import.meta.url)

/** 100,000 apps need 1/7 of it for a moment. */
const MAX_HEAP_MB = 1024

export type AppsRead =
  | { readonly kind: 'apps'; readonly apps: AppIndex; readonly digest: string; readonly identity: string }
  | Exclude<AppsText, { readonly kind: 'text' }>

export interface AppsThread {
  /** Never rejects: a failed thread counts as a file that cannot be used. late: no answer before the timeout. */
  readonly answer: Promise<AppsRead | { readonly kind: 'late' }>
  /** Resolves once the thread has ended. A thread that waits for the disk ends only when the disk answers. */
  readonly ended: Promise<void>
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
    // Those in force stay so until all of these are there.
    const apps = new AppIndex()
    worker.on('message', (message: ReaderMessage) => {
      if (message.kind === 'slice') for (const record of message.records) apps.add(appOf(record))
      else settle(message.kind === 'end' ? { ...message, kind: 'apps', apps } : message)
      // In the next turn: those that come before this one is over would be taken in this one.
      setImmediate(() => worker.postMessage('next', []))
    })
    worker.once('error', (error) => settle(failed(error)))
    worker.once('exit', () => settle(failed('the thread ended before its answer')))
  })
  return { answer, ended, stop }
}

function failed(error: unknown): AppsRead {
  return { kind: 'mistakes', mistakes: [`reading it failed: ${errorMessage(error)}`], identity: null }
}
