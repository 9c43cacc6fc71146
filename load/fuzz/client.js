// @ts-check
// Plays one client's script over a socket, and holds what it hears against what it must hear.

import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseAnswers, repeatsInput, unsound } from './answers.js'
import { isOverload } from './overload.js'
import { deserved, readings } from './verdict.js'

/** @typedef {import('./script.js').Script} Script */
/** @typedef {import('./answers.js').Answer} Answer */
/** @typedef {{ fault: string | null, answers: readonly Answer[] }} Played */

const ANSWER_TIMEOUT_MS = 12_000
/** What a client that does not wait for answers is given to hear them. */
const LAST_WORDS_MS = 20
/** No answer is longer, and no script asks for more of them. */
const MAX_RECEIVED_BYTES = 8_000_000

/** @param {Script} script @param {{ port: number, adminPort: number }} ports @returns {Promise<Played>} */
export async function play(script, ports) {
  const startedAtMs = Date.now()
  const isAdmin = script.expectation.hears === 'admin'
  const connection = new Connection(isAdmin ? ports.adminPort : ports.port, script.mayHead)
  try {
    for (const step of script.steps) {
      await connection.step(step)
      if (connection.isGone) break
    }
    if (script.expectation.hears === 'any' || isAdmin) await sleep(LAST_WORDS_MS)
    const { answers, fault, isWhole } = connection.heard()
    return { answers, fault: fault ?? judge(script, answers, { isWhole, startedAtMs, connection }) }
  } finally {
    connection.close()
  }
}

/** @param {Script} script @param {readonly Answer[]} answers @param {{ isWhole: boolean, startedAtMs: number, connection: Connection }} about */
function judge({ expectation, mayHead }, answers, { isWhole, startedAtMs, connection }) {
  if (expectation.hears === 'admin') return null
  for (const answer of answers) {
    const wrong = unsound(answer, { mayHead })
    if (wrong !== null) return wrong
  }
  if (repeatsInput(connection.received)) return 'an answer repeats what was sent'
  if (expectation.hears === 'any') return null
  if (expectation.hears === 'judged') return judgeBody(expectation, answers, startedAtMs)
  if (answers.length !== expectation.answers.length) {
    return `${answers.length} answers instead of ${expectation.answers.length} (${answers.map(describe).join('; ')}${isWhole ? '' : ', and a part of one'}); the connection is ${connection.isGone ? 'closed' : 'open'}`
  }
  let isTaken = false
  for (const [index, expected] of expectation.answers.entries()) {
    const { status, json } = answers[index]
    if (expected.orBusy === true && isOverload(answers[index])) continue
    const isRight =
      status === expected.status &&
      (expected.error === undefined || json?.error === expected.error) &&
      (expected.events === undefined || json?.events === expected.events) &&
      (expected.deduplicated === undefined || (json?.deduplicated === true) === (expected.deduplicated && isTaken))
    isTaken ||= status === 202
    if (!isRight) return `answer ${index + 1} is ${describe(answers[index])}, not ${JSON.stringify(expected)}`
  }
  return null
}

/** @param {{ body: Buffer, encoding: import('./requests.js').Encoding }} expectation @param {readonly Answer[]} answers @param {number} startedAtMs */
function judgeBody({ body, encoding }, answers, startedAtMs) {
  if (answers.length !== 1) return `${answers.length} answers to one request`
  const [answer] = answers
  // The run counts these.
  if (isOverload(answer)) return null
  // A time in the body may go out of its range while it is under way.
  const times = [startedAtMs, Date.now()]
  const deserts = readings(body, encoding).flatMap((reading) => times.map((nowMs) => deserved(reading, nowMs)))
  if (encoding !== 'identity')
    deserts.push({ status: 400, error: 'invalid_json' }, { status: 413, error: 'payload_too_large' })
  const isRight = deserts.some(
    ({ status, error }) => status === answer.status && (error === null || error === answer.json?.error),
  )
  return isRight ? null : `${describe(answer)}, where ${JSON.stringify(deserts)} is right`
}

/** @param {Answer} answer */
export function describe({ status, json, isLibrarys }) {
  return isLibrarys ? `${status} of the library` : `${status} ${JSON.stringify(json)}`
}

class Connection {
  /** @type {Buffer[]} */
  #pieces = []
  #receivedBytes = 0
  #ended = false
  #mayHead
  #wake = () => {}

  /** @param {number} port @param {boolean} mayHead */
  constructor(port, mayHead) {
    this.#mayHead = mayHead
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
    this.socket.on('data', (piece) => {
      this.#pieces.push(piece)
      this.#receivedBytes += piece.length
      if (this.#receivedBytes > MAX_RECEIVED_BYTES) this.socket.destroy()
      this.#wake()
    })
    this.socket.on('error', () => {})
    for (const name of ['end', 'close']) {
      this.socket.on(name, () => {
        this.#ended = true
        this.#wake()
      })
    }
  }

  get isGone() {
    return this.#ended
  }

  get received() {
    if (this.#pieces.length > 1) this.#pieces = [Buffer.concat(this.#pieces)]
    return this.#pieces[0] ?? Buffer.alloc(0)
  }

  heard() {
    const { answers, rest, fault } = parseAnswers(this.received, { ended: this.#ended, mayHead: this.#mayHead })
    return { answers, fault, isWhole: rest.length === 0 }
  }

  /** @param {import('./script.js').Step} step */
  async step(step) {
    switch (step.do) {
      case 'write':
        if (this.socket.writable) this.socket.write(step.bytes)
        return
      case 'pause':
        await sleep(step.ms)
        return
      case 'answers':
        await this.#untilAnswers(step.count)
        return
      case 'deafen':
        this.socket.pause()
        return
      case 'hear':
        this.socket.resume()
        return
      case 'half-close':
        this.socket.end()
        return
      case 'reset':
        this.socket.resetAndDestroy()
        return
      case 'close':
        this.socket.destroy()
        return
    }
  }

  /** @param {number} count */
  async #untilAnswers(count) {
    const deadlineMs = performance.now() + ANSWER_TIMEOUT_MS
    while (!this.#ended && this.heard().answers.length < count) {
      const leftMs = deadlineMs - performance.now()
      if (leftMs <= 0) return
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, leftMs)
        this.#wake = () => {
          clearTimeout(timer)
          resolve(undefined)
        }
      })
    }
  }

  close() {
    this.socket.destroy()
  }
}
