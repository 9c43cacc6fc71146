// @ts-check
// Takes apart what came back over a socket, and says what is wrong with it: every answer on the public port is JSON
// with its three headers, and repeats nothing of what was sent. What the HTTP library answers by itself is known by its look.

import { canonicalName, faultsOf, windowFaults } from '../k6/shared/answers.js'
import { MARK } from './requests.js'

/**
 * @typedef {object} Answer
 * @property {number} status
 * @property {Readonly<Record<string, string>>} headers
 * @property {Record<string, unknown> | null} json null: none, as after HEAD, or an answer of the library's own
 * @property {boolean} isLibrarys
 */
/** @typedef {{ answers: Answer[], rest: Buffer, fault: string | null }} Parsed */

const LIBRARYS_STATUSES = new Set([400, 413, 431, 505])
/** Of heads that cannot be read. Where Node reads them, the body says `validation_failed`, as of 400. */
const HEAD_STATUSES = new Set([431, 505])
const HEAD_END = '\r\n\r\n'

/**
 * @param {Buffer} received
 * @param {{ ended: boolean, mayHead: boolean }} about `mayHead`: an answer may come without the body it announces
 * @returns {Parsed}
 */
export function parseAnswers(received, { ended, mayHead }) {
  /** @type {Answer[]} */
  const answers = []
  let rest = received
  while (rest.length > 0) {
    const headEnd = rest.indexOf(HEAD_END)
    if (headEnd < 0) break
    const text = rest.toString('latin1', 0, headEnd)
    const [statusLine, ...lines] = text.split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) [A-Za-z ]+$/.exec(statusLine)?.[1])
    if (Number.isNaN(status))
      return { answers, rest, fault: `not a status line: ${JSON.stringify(statusLine.slice(0, 80))}` }
    const after = rest.subarray(headEnd + HEAD_END.length)
    if (status < 200) {
      rest = after
      continue
    }
    const headers = Object.fromEntries(lines.map(splitHeader))
    const length = headers['content-length']
    const isBodiless = mayHead && (after.length === 0 ? ended : after.toString('latin1', 0, 5) === 'HTTP/')
    if (mayHead && after.length === 0 && !ended) break
    const bodyBytes = isBodiless ? 0 : length === undefined ? after.length : Number(length)
    if (after.length < bodyBytes || (length === undefined && !ended)) break
    const body = after.toString('utf8', 0, bodyBytes)
    const isLibrarys = headers['content-type'] === undefined || headers['content-type'].startsWith('text/html')
    answers.push({ status, headers, json: isBodiless || isLibrarys ? null : parseObject(body), isLibrarys })
    rest = after.subarray(bodyBytes)
  }
  return { answers, rest, fault: null }
}

/** What is wrong with an answer of the public port; null: nothing. @param {Answer} answer @param {{ mayHead: boolean }} about */
export function unsound({ status, headers, json, isLibrarys }, { mayHead }) {
  if (isLibrarys) return LIBRARYS_STATUSES.has(status) ? null : `a bare answer with status ${status}`
  const named = Object.entries(headers).map(([name, value]) => [canonicalName(name), value])
  const answer = { status: HEAD_STATUSES.has(status) ? 400 : status, headers: Object.fromEntries(named), body: null }
  const nowSeconds = Date.now() / 1000
  const faults = json === null && mayHead ? windowFaults(answer, nowSeconds) : faultsOf(answer, json, { nowSeconds })
  return faults.length === 0 ? null : `${status} ${JSON.stringify(json)}: not so: ${faults.join('; ')}`
}

/** @param {Buffer} received */
export function repeatsInput(received) {
  return received.includes(MARK)
}

/** @param {string} line @returns {[string, string]} */
function splitHeader(line) {
  const colon = line.indexOf(':')
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
}

/** @param {string} text @returns {Record<string, unknown> | null} */
function parseObject(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
