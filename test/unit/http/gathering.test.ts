import { describe, expect, it } from 'vitest'
import { Gathering } from '../../../src/http/gathering.ts'

function piece(lengthBytes: number, fill = 1): ArrayBuffer {
  return new Uint8Array(lengthBytes).fill(fill).buffer
}

describe('bodies on their way', () => {
  it('gather in order, copied, and give their bytes back once forgotten', () => {
    const gathering = new Gathering(1000)
    const body = gathering.begin(() => expect.unreachable())
    const first = piece(3, 7)
    gathering.add(body, first)
    new Uint8Array(first).fill(9)
    gathering.add(body, piece(2, 8))
    expect(Buffer.concat(body.pieces)).toEqual(Buffer.from([7, 7, 7, 8, 8]))
    expect(gathering.usedBytes).toBe(5)
    gathering.forget(body)
    gathering.forget(body)
    expect(gathering.usedBytes).toBe(0)
  })

  it('make the oldest give way when the memory for all is used up', () => {
    const gathering = new Gathering(1000)
    const evicted: string[] = []
    const bodies = ['slow', 'middle', 'new'].map((name) => gathering.begin(() => evicted.push(name)))
    gathering.add(bodies[0], piece(400))
    gathering.add(bodies[1], piece(400))
    expect(evicted).toEqual([])
    gathering.add(bodies[2], piece(400))
    expect(evicted).toEqual(['slow'])
    expect(gathering.usedBytes).toBe(800)
  })

  it('never hold more than their bound, even for one body', () => {
    const gathering = new Gathering(1000)
    let evictions = 0
    const body = gathering.begin(() => evictions++)
    gathering.add(body, piece(1001))
    expect([evictions, gathering.usedBytes]).toEqual([1, 0])
  })

  it('spare a connection that has sent nothing yet: evicting it would free nothing', () => {
    const gathering = new Gathering(1000)
    const evicted: string[] = []
    gathering.begin(() => evicted.push('silent'))
    const large = gathering.begin(() => evicted.push('large'))
    gathering.add(large, piece(600))
    gathering.add(
      gathering.begin(() => evicted.push('last')),
      piece(600),
    )
    expect(evicted).toEqual(['large'])
  })
})
