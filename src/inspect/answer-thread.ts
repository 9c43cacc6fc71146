// The thread that answers one question that takes long to read for, and ends.

import { parentPort, workerData } from 'node:worker_threads'
import { MAX_SEARCH_MS } from '../contract/bounds.ts'
import type { Question } from '../queue/find/question.ts'
import type { Damage } from '../queue/journal/segment-cursor.ts'
import { judgeBody } from './explain.ts'
import { findInQueue, type QueuePlace } from './find/find-in-queue.ts'
import { findingJson, noteDamage, type Shown } from './find/finding-json.ts'
import { newestEvents, searchStored } from './find/stored-search.ts'
import { unavailableReason } from './unavailable.ts'

/** Each takes what may be copied from thread to thread. */
const TASKS = {
  explain: (body: Uint8Array, appKey: string | null, nowMs: number) => judgeBody(Buffer.from(body), appKey, nowMs),
  events: newestEvents,
  search: searchStored,
  async batch(place: QueuePlace, question: Question, shown: Omit<Shown, 'damage'>): Promise<string> {
    const damage: Damage[] = []
    const signal = AbortSignal.timeout(MAX_SEARCH_MS)
    const finding = await findInQueue(place, question, { signal, onDamage: (each) => noteDamage(damage, each) })
    return findingJson(finding, question, { ...shown, damage })
  },
}

export type Tasks = typeof TASKS

export type ThreadAnswer = { readonly answer: unknown } | { readonly unavailable: string }

const { name, work } = workerData as { name: keyof Tasks; work: readonly unknown[] }
const task = TASKS[name] as (...work: readonly unknown[]) => unknown

/** What is thrown as a bug reaches the acceptor as an error of this thread, with its stack. */
async function answer(): Promise<ThreadAnswer> {
  try {
    return { answer: await task(...work) }
  } catch (error) {
    const unavailable = unavailableReason(error)
    if (unavailable === null) throw error
    return { unavailable }
  }
}

parentPort?.postMessage(await answer(), [])
