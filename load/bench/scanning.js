// @ts-check
// The built decoder, over bodies that lie in its memory as they lie in the ring.

import { importBuilt } from '../shared/built.js'

/** @type {typeof import('../../src/decode/decoder.ts')} */
const { createDecoder } = await importBuilt('decode/decoder.js')
/** @type {typeof import('../../src/ring/memory.ts')} */
const { createMemory } = await importBuilt('ring/memory.js')

/** The decoder writes a few bytes after the body, and the next must not begin there. */
const GAP_BYTES = 64
const WORDS = 64

/** Where it begins and ends. @typedef {readonly [start: number, end: number]} Place */

/** @param {readonly (readonly string[])[]} lists @param {number} nowMs */
export function placed(lists, nowMs) {
  const bytesOf = lists.flat().reduce((sum, body) => sum + Buffer.byteLength(body) + GAP_BYTES, 0)
  const memory = createMemory(bytesOf)
  const bytes = Buffer.from(memory.buffer)
  let end = 0
  const places = lists.map((bodies) =>
    bodies.map((body) => {
      const start = end
      end += bytes.write(body, start) + GAP_BYTES
      return /** @type {Place} */ ([start, end - GAP_BYTES])
    }),
  )
  /** With what it has learnt of its own. */
  const scanner = () => {
    const decoder = createDecoder('scanner', memory)
    const words = new Int32Array(WORDS)
    return (/** @type {Place} */ [start, until]) => {
      const verdict = decoder.scan(start, until, nowMs, words, 0)
      if (verdict === 'not sure' || verdict?.kind === 'refused') throw new Error('the scanner did not take a body')
    }
  }
  return { places, scanner }
}
