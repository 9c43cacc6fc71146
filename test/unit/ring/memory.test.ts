// The areas of scanners beside the bodies.

import { expect, test } from 'vitest'
import { Scanner } from '../../../src/decode/scanner.ts'
import { DECODED_WORDS } from '../../../src/ring/layout.ts'
import { createMemory, endOfBodies, LOOK_AHEAD_BYTES, takeArea } from '../../../src/ring/memory.ts'
import { bodyOf, event, NOW_MS } from '../decode/bodies.ts'

const MAX_BODY_BYTES = 2_000_000

/** All that are left, in the order in which they are given. */
function takeAll(memory: WebAssembly.Memory): number[] {
  const areas: number[] = []
  for (let area = takeArea(memory); area !== 0; area = takeArea(memory)) areas.push(area)
  return areas
}

test('areas are given to one scanner each, behind the bodies and their look-ahead, and come to an end', () => {
  const memory = createMemory(100_000)
  expect(endOfBodies(memory)).toBeGreaterThanOrEqual(100_000 + LOOK_AHEAD_BYTES)
  const areas = takeAll(memory)
  expect(areas).toHaveLength(320)
  expect(areas[0]).toBe(endOfBodies(memory))
  const sizes = areas.map((area, index) => (areas[index + 1] ?? memory.buffer.byteLength) - area)
  // One layout takes 8 KiB, a scanner keeps 32, and their directory takes as much as one.
  expect(Math.min(...sizes)).toBeGreaterThanOrEqual(33 * 8192)
  expect(takeArea(memory)).toBe(0)
})

test('a scanner writes what it learns into its own area, and one that got none writes nothing and takes the same', () => {
  const memory = createMemory(MAX_BODY_BYTES)
  const bytes = new Uint8Array(memory.buffer)
  const learning = new Scanner(memory)
  const [next] = takeAll(memory)
  const plain = new Scanner(memory)
  const scan = (scanner: Scanner, length: number) => {
    const words = new Int32Array(DECODED_WORDS)
    expect(scanner.scan(8, 8 + length, NOW_MS, words, 0)).toBe(true)
    return words
  }
  const written = (from: number, until: number) => bytes.subarray(from, until).some((byte) => byte !== 0)
  // Events that are larger than any layout, and then more layouts than are kept, up to the largest.
  for (const valueCharacters of [500, 100, 1]) {
    for (let first = 0; first < 200; first += 50) {
      const events = Array.from({ length: 50 }, (_, index) =>
        event({ name: `"n${first + index}"`, properties: properties(20 + (index % 31), valueCharacters) }),
      )
      const body = Buffer.from(bodyOf(...events))
      bytes.set(body, 8)
      const found = scan(plain, body.length)
      if (first === 0 && valueCharacters === 500) expect(written(endOfBodies(memory), next)).toBe(false)
      expect(scan(learning, body.length)).toEqual(found)
    }
  }
  expect(written(next - 8192, next)).toBe(true)
  expect(written(next, memory.buffer.byteLength - 65_536)).toBe(false)
})

function properties(count: number, valueCharacters: number): string {
  const value = 'x'.repeat(valueCharacters)
  return `{${Array.from({ length: count }, (_, key) => `"k${key}":"${value}"`).join()}}`
}
