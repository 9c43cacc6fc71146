import { describe, expect, it } from 'vitest'
import { Gathering } from '../../../src/http/gathering.ts'

const PAGE_BYTES = 8192
const FOUR_PAGES = 4 * PAGE_BYTES

function piece(lengthBytes: number, fill = 1): Uint8Array {
  return new Uint8Array(lengthBytes).fill(fill)
}

describe('bodies on their way', () => {
  it.each([1, 100, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1])(
    'gather whole and in order from pieces of %i bytes, and give their pages back once forgotten',
    (bytes) => {
      const gathering = new Gathering(FOUR_PAGES)
      const body = gathering.begin(() => expect.unreachable())
      const sent: Uint8Array[] = []
      for (let fill = 1; fill <= 3; fill++) {
        const next = piece(bytes, fill)
        sent.push(next.slice())
        gathering.add(body, next)
        // The piece is only lent.
        next.fill(0)
      }
      expect(Buffer.concat(gathering.pieces(body))).toEqual(Buffer.concat(sent))
      expect(body.lengthBytes).toBe(3 * bytes)
      gathering.forget(body)
      gathering.forget(body)
      expect(gathering.usedBytes).toBe(0)
    },
  )

  it('do not mix when they take turns', () => {
    const gathering = new Gathering(16 * PAGE_BYTES)
    const bodies = [1, 2, 3].map((fill) => ({ fill, body: gathering.begin(() => expect.unreachable()) }))
    for (let turn = 0; turn < 10; turn++) {
      for (const { fill, body } of bodies) gathering.add(body, piece(3000, fill))
    }
    for (const { fill, body } of bodies) {
      expect(Buffer.concat(gathering.pieces(body)).every((byte) => byte === fill)).toBe(true)
    }
  })

  it('make the oldest give way when the pages are used up', () => {
    const gathering = new Gathering(FOUR_PAGES)
    const evicted: string[] = []
    const bodies = ['slow', 'middle', 'new'].map((name) => gathering.begin(() => evicted.push(name)))
    gathering.add(bodies[0], piece(2 * PAGE_BYTES))
    gathering.add(bodies[1], piece(2 * PAGE_BYTES))
    expect(evicted).toEqual([])
    gathering.add(bodies[2], piece(2 * PAGE_BYTES, 9))
    expect(evicted).toEqual(['slow'])
    expect(gathering.usedBytes).toBe(FOUR_PAGES)
    expect(Buffer.concat(gathering.pieces(bodies[2])).every((byte) => byte === 9)).toBe(true)
  })

  it('never hold more than their bound, even for one body, and go on after it', () => {
    const gathering = new Gathering(FOUR_PAGES)
    let evictions = 0
    const body = gathering.begin(() => evictions++)
    gathering.add(body, piece(FOUR_PAGES + 1))
    expect([evictions, gathering.usedBytes]).toEqual([1, 0])
    const next = gathering.begin(() => expect.unreachable())
    gathering.add(next, piece(FOUR_PAGES))
    expect(gathering.usedBytes).toBe(FOUR_PAGES)
  })

  it('spare a connection that has sent nothing yet: evicting it would free nothing', () => {
    const gathering = new Gathering(FOUR_PAGES)
    const evicted: string[] = []
    gathering.begin(() => evicted.push('silent'))
    const large = gathering.begin(() => evicted.push('large'))
    gathering.add(large, piece(3 * PAGE_BYTES))
    gathering.add(
      gathering.begin(() => evicted.push('last')),
      piece(2 * PAGE_BYTES),
    )
    expect(evicted).toEqual(['large'])
  })
})
