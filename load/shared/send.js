// @ts-check
// One try of one request: what came of it, as a value.

import { Agent, request } from 'node:http'

/**
 * @typedef {{ kind: 'answer', status: number, code: string, events: number, deduplicated: boolean, batchId: string,
 *   retryAfterSeconds: number, text: string } | { kind: 'error', code: string } | { kind: 'timeout' }} Result
 */
/** @typedef {{ port: number, body: Buffer, key: string | null, timeoutMs: number }} Try */

/** Shorter than the service's own, so that a request seldom meets a connection that is just being closed. */
const IDLE_TIMEOUT_MS = 4000
/** To each node. While one stands still, its requests wait here, and time out as they would there. */
const MAX_SOCKETS = 2000
const PATH = '/api/v1/events'

/** Connections to the nodes, by port. */
export class Connections {
  /** @type {Map<number, Agent>} */
  #agents = new Map()

  /** @param {Try} options @returns {Promise<Result>} */
  send({ port, body, key, timeoutMs }) {
    /** @type {Record<string, string | number>} */
    const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length }
    if (key !== null) headers['Idempotency-Key'] = key
    return new Promise((resolve) => {
      const agent = this.#agent(port)
      const outgoing = request({ host: '127.0.0.1', port, method: 'POST', path: PATH, headers, agent })
      const timer = setTimeout(() => {
        resolve({ kind: 'timeout' })
        outgoing.destroy()
      }, timeoutMs)
      const end = (/** @type {Result} */ result) => {
        clearTimeout(timer)
        resolve(result)
      }
      outgoing.once('error', (error) => end({ kind: 'error', code: 'code' in error ? String(error.code) : 'unknown' }))
      outgoing.once('response', (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (piece) => (text += piece))
        response.once('error', (error) => end({ kind: 'error', code: error.message }))
        response.once('end', () => end(readAnswer(response, text)))
      })
      outgoing.end(body)
    })
  }

  /** Cuts every connection to a node, with whatever is on its way. @param {number} port */
  cut(port) {
    this.#agents.get(port)?.destroy()
    this.#agents.delete(port)
  }

  stop() {
    for (const port of this.#agents.keys()) this.cut(port)
  }

  /** @param {number} port */
  #agent(port) {
    let agent = this.#agents.get(port)
    if (agent === undefined) {
      agent = new Agent({ keepAlive: true, timeout: IDLE_TIMEOUT_MS, maxSockets: MAX_SOCKETS })
      this.#agents.set(port, agent)
    }
    return agent
  }
}

/** @param {import('node:http').IncomingMessage} response @param {string} text @returns {Result} */
function readAnswer(response, text) {
  try {
    const { error = '', events = -1, deduplicated = false } = JSON.parse(text)
    return {
      kind: 'answer',
      status: response.statusCode ?? 0,
      code: error,
      events,
      deduplicated,
      batchId: String(response.headers['x-batch-id'] ?? ''),
      retryAfterSeconds: Number(response.headers['retry-after'] ?? 0),
      text,
    }
  } catch {
    return { kind: 'error', code: 'half an answer' }
  }
}
