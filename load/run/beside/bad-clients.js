// @ts-check
// Beside the script `bad-clients`: a crowd of bare sockets, and an eye on the node's memory.

import { setTimeout as sleep } from 'node:timers/promises'
import { parsePage, sumOf } from '../../k6/shared/metrics-page.js'
import { createRng, uniformBody } from '../../payloads.js'
import { RAW_CLIENTS, runRawClient } from '../raw-clients.js'

/** Of each kind at the same time. */
const CLIENTS_PER_KIND = 8
const PAUSE_MS = 400
const LOOK_EVERY_MS = 250
const EVENTS = 3

/** @typedef {{ right: number, wrong: Record<string, number> }} Tally by what came instead */
/** @typedef {{ kinds: Record<string, Tally>, firstBytes: number, mostBytes: number, looks: number }} BadClientsFound */

/** @type {import('../beside.js').Beside} */
export const beside = {
  async during({ baseUrls, node, environment }, signal) {
    const { hostname, port } = new URL(baseUrls[0])
    const options = { events: EVENTS, rng: createRng(1), appKey: environment.APP_KEY, nowMs: Date.now() }
    const to = { host: hostname, port: Number(port || 80), body: uniformBody(options) }
    /** @type {BadClientsFound} */
    const found = { kinds: {}, firstBytes: 0, mostBytes: 0, looks: 0 }
    const going = Object.keys(RAW_CLIENTS).flatMap((kind) => {
      found.kinds[kind] = { right: 0, wrong: {} }
      return Array.from({ length: CLIENTS_PER_KIND }, () => again(kind, to, found.kinds[kind], signal))
    })
    const adminUrl = node?.adminUrl ?? environment.ADMIN_URL?.split(',')[0]
    if (adminUrl !== undefined) going.push(watchMemory(adminUrl, found, signal))
    await Promise.all(going)
    return found
  },
}

/** @param {string} kind @param {Parameters<typeof runRawClient>[1]} to @param {Tally} tally @param {AbortSignal} signal */
async function again(kind, to, tally, signal) {
  const client = RAW_CLIENTS[kind]
  while (!signal.aborted) {
    const ending = await runRawClient(client, to)
    if (client.expected.includes(ending)) tally.right++
    else tally.wrong[ending] = (tally.wrong[ending] ?? 0) + 1
    await sleep(PAUSE_MS)
  }
}

/** @param {string} adminUrl @param {BadClientsFound} found @param {AbortSignal} signal */
async function watchMemory(adminUrl, found, signal) {
  while (!signal.aborted) {
    const response = await fetch(`${adminUrl}/metrics`)
    const bytes = sumOf(parsePage(await response.text()), 'process_resident_memory_bytes')
    if (found.looks++ === 0) found.firstBytes = bytes
    found.mostBytes = Math.max(found.mostBytes, bytes)
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => {})
  }
}
