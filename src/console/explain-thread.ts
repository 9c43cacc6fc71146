// The thread that reads one body for `explain`, tells what is wrong with it, and ends.

import { parentPort, workerData } from 'node:worker_threads'
import { judgeBody } from './explain.ts'
import type { ReadTask } from './start-explain.ts'

const { body, appKey, nowMs } = workerData as ReadTask
parentPort?.postMessage(judgeBody(Buffer.from(body), appKey, nowMs), [])
