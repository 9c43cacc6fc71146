// @ts-check
// Looks at the nodes all along: whether their own sums add up, how much memory they take, whether they are ready.

import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parsePage, readMetrics } from '../../test/support/metrics.js'
import { cameTrue } from '../shared/until.js'

const INTERVAL_MS = 2000
const SCRAPE_TIMEOUT_MS = 2000
const MIB = 1024 * 1024
const PAGE_BYTES = 4096

/** @typedef {import('./servers.js').Node} Node */

/** @param {Node} node @param {string} path @returns {Promise<{ status: number, text: string } | null>} null: no answer */
export async function ask(node, path) {
  try {
    const response = await fetch(`http://127.0.0.1:${node.adminPort}${path}`, {
      signal: AbortSignal.timeout(SCRAPE_TIMEOUT_MS),
    })
    return { status: response.status, text: await response.text() }
  } catch {
    return null
  }
}

/** What a node's metrics get wrong, or null. @param {string} page */
export function sumsFault(page) {
  const metrics = readMetrics(page)
  const [received = 0, ended = 0, inFlight = 0] = ['received_total', 'total', 'in_flight'].map((name) =>
    metrics.get(`sluice_requests_${name}`),
  )
  return received === ended + inFlight ? null : `received ${received}, ended ${ended}, in flight ${inFlight}`
}

/** The 503s of a node by their reason. @param {string} page @returns {[string, number][]} */
export function overloadReasons(page) {
  const series = parsePage(page).filter(({ name, value }) => name === 'sluice_overloaded_total' && value > 0)
  return series.map(({ labels, value }) => [labels['reason'], value])
}

/** @param {number} pid */
function residentMiB(pid) {
  try {
    return (Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * PAGE_BYTES) / MIB
  } catch {
    return 0
  }
}

/** @param {{ nodes: readonly Node[], onProblem: (text: string) => void }} options */
export function startWatch({ nodes, onProblem }) {
  const memory = nodes.map(() => ({ mostMiB: 0, lastMiB: 0 }))
  /** By life of a node. @type {Map<string, [string, number][]>} */
  const overloads = new Map()
  let scrapes = 0
  const over = new AbortController()
  const looking = Promise.all(nodes.map((node, index) => look(node, memory[index])))

  /** @param {Node} node @param {{ mostMiB: number, lastMiB: number }} seen */
  async function look(node, seen) {
    while (!over.signal.aborted) {
      const { life } = node
      const page = await ask(node, '/metrics')
      if (page !== null) {
        scrapes += 1
        overloads.set(`${node.name}.${life}`, overloadReasons(page.text))
        const fault = sumsFault(page.text)
        if (fault !== null) onProblem(`${node.name}.${life}: its metrics do not add up: ${fault}`)
        seen.lastMiB = residentMiB(node.pid())
        seen.mostMiB = Math.max(seen.mostMiB, seen.lastMiB)
      }
      await sleep(INTERVAL_MS)
    }
  }
  return {
    memory,
    scrapes: () => scrapes,
    /** All 503s by reason, but for those of the last two seconds of a node that was killed. */
    overloads: () => {
      /** @type {Record<string, number>} */
      const sums = {}
      for (const [reason, count] of [...overloads.values()].flat()) sums[reason] = (sums[reason] ?? 0) + count
      return sums
    },
    stop: async () => {
      over.abort()
      await looking
    },
  }
}

/** When all nodes are ready; null: not within the time. @param {readonly Node[]} nodes @param {number} timeoutMs */
export async function untilReady(nodes, timeoutMs) {
  const isReady = async () => {
    const answers = await Promise.all(nodes.map((node) => ask(node, '/readyz')))
    return answers.every((answer) => answer?.status === 200)
  }
  return (await cameTrue(isReady, timeoutMs)) ? Date.now() : null
}
