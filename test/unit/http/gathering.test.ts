import { describe, expect, it } from 'vitest'
import { Gathering, type PartialBody } from '../../../src/http/gathering.ts'

const PAGE_BYTES = 8192
const FOUR_PAGES = 4 * PAGE_BYTES
/** Longer than a body may take before it counts as slow. */
const LONG_MS = 1000

/** A clock that stands still. All pages are for bodies of every size. */
function atLeisure(maxBytes: number): Gathering {
  return new Gathering({ maxBytes, monotonicMs: () => 0, shares: [] })
}

function piece(lengthBytes: number, fill = 1): Uint8Array {
  return new Uint8Array(lengthBytes).fill(fill)
}

describe('partial bodies', () => {
  it.each([1, 100, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1])(
    'are complete and in order from pieces of %i bytes, and free their pages when forgotten',
    (bytes) => {
      const gathering = atLeisure(FOUR_PAGES)
      const body = gathering.begin(null, () => expect.unreachable())
      const sent: Uint8Array[] = []
      for (let fill = 1; fill <= 3; fill++) {
        const next = piece(bytes, fill)
        sent.push(next.slice())
        gathering.add(body, next)
        // The piece is valid only during the call.
        next.fill(0)
      }
      expect(Buffer.concat(gathering.pieces(body))).toEqual(Buffer.concat(sent))
      expect(body.lengthBytes).toBe(3 * bytes)
      gathering.forget(body)
      gathering.forget(body)
      expect(gathering.usedBytes).toBe(0)
    },
  )

  it('do not mix when their pieces alternate', () => {
    const gathering = atLeisure(16 * PAGE_BYTES)
    const bodies = [1, 2, 3].map((fill) => ({ fill, body: gathering.begin(null, () => expect.unreachable()) }))
    for (let turn = 0; turn < 10; turn++) {
      for (const { fill, body } of bodies) gathering.add(body, piece(3000, fill))
    }
    for (const { fill, body } of bodies) {
      expect(Buffer.concat(gathering.pieces(body)).every((byte) => byte === fill)).toBe(true)
    }
  })

  it('never exceed their bound, even with one body, and continue after it', () => {
    const gathering = atLeisure(FOUR_PAGES)
    let evictions = 0
    const body = gathering.begin(null, () => evictions++)
    gathering.add(body, piece(FOUR_PAGES + 1))
    expect([evictions, gathering.usedBytes]).toEqual([1, 0])
    const next = gathering.begin(null, () => expect.unreachable())
    gathering.add(next, piece(FOUR_PAGES))
    expect(gathering.usedBytes).toBe(FOUR_PAGES)
  })
})

describe('when the pages are used up', () => {
  interface Crowd {
    readonly gathering: Gathering
    readonly evicted: string[]
    readonly begin: (name: string, declaredBytes?: number | null) => PartialBody
    readonly wait: (ms?: number) => void
  }

  /** Without `isShared` all pages are for bodies of every size. */
  function crowd(pages = 4, isShared = false): Crowd {
    let monotonicMs = 0
    const evicted: string[] = []
    const shares = isShared ? {} : { shares: [] }
    const gathering = new Gathering({ maxBytes: pages * PAGE_BYTES, monotonicMs: () => monotonicMs, ...shares })
    return {
      gathering,
      evicted,
      begin: (name, declaredBytes = null) => gathering.begin(declaredBytes, () => evicted.push(name)),
      wait: (ms = LONG_MS) => void (monotonicMs += ms),
    }
  }

  it('slow bodies are evicted, of equal ones the oldest first, and only as many as necessary', () => {
    const { gathering, evicted, begin, wait } = crowd()
    const [slow, middle] = [begin('slow'), begin('middle')]
    gathering.add(slow, piece(2 * PAGE_BYTES))
    gathering.add(middle, piece(2 * PAGE_BYTES))
    wait()
    const fresh = begin('fresh')
    gathering.add(fresh, piece(2 * PAGE_BYTES, 9))
    expect(evicted).toEqual(['slow'])
    expect(gathering.usedBytes).toBe(FOUR_PAGES)
    expect(Buffer.concat(gathering.pieces(fresh)).every((byte) => byte === 9)).toBe(true)
  })

  it('a new body is evicted rather than one that is not slow: some complete, however many come', () => {
    const { gathering, evicted, begin } = crowd()
    const [first, second, third] = [begin('first'), begin('second'), begin('third')]
    gathering.add(first, piece(2 * PAGE_BYTES))
    gathering.add(second, piece(2 * PAGE_BYTES))
    gathering.add(third, piece(1))
    expect(evicted).toEqual(['third'])
    gathering.add(second, piece(1))
    expect(evicted).toEqual(['third', 'second'])
    gathering.add(first, piece(2 * PAGE_BYTES))
    expect(first.lengthBytes).toBe(FOUR_PAGES)
  })

  it('a body with a declared length reserves room for the rest once half of it has arrived', () => {
    const { gathering, evicted, begin } = crowd()
    const declared = begin('declared', FOUR_PAGES)
    gathering.add(declared, piece(2 * PAGE_BYTES))
    gathering.add(begin('newcomer'), piece(1))
    expect(evicted).toEqual(['newcomer'])
    gathering.add(declared, piece(2 * PAGE_BYTES))
    gathering.forget(declared)
    gathering.add(begin('next'), piece(FOUR_PAGES))
    expect(evicted).toEqual(['newcomer'])
    expect(gathering.usedBytes).toBe(FOUR_PAGES)
  })

  it('a very slow body is evicted before older ones: a single byte earns no time', () => {
    const { gathering, evicted, begin, wait } = crowd()
    gathering.add(begin('quick'), piece(3 * PAGE_BYTES))
    gathering.add(begin('trickle', FOUR_PAGES), piece(1))
    wait(100)
    gathering.add(begin('newcomer'), piece(1))
    expect(evicted).toEqual(['trickle'])
    wait(1000)
    gathering.add(begin('later'), piece(1))
    expect(evicted).toEqual(['trickle', 'quick'])
  })

  it('a byte of two pages does not count as half', () => {
    const { gathering, evicted, begin } = crowd()
    for (const name of ['first', 'second', 'third', 'fourth']) gathering.add(begin(name, 2 * PAGE_BYTES), piece(1))
    expect(evicted).toEqual([])
  })

  it('a body of which little has arrived reserves little, whatever length it declares', () => {
    const { gathering, evicted, begin } = crowd()
    gathering.add(begin('boaster', FOUR_PAGES), piece(1))
    gathering.add(begin('modest'), piece(3 * PAGE_BYTES))
    expect(evicted).toEqual([])
  })

  it('a body without any bytes is not evicted, since that would free nothing', () => {
    const { gathering, evicted, begin, wait } = crowd()
    begin('silent')
    gathering.add(begin('large'), piece(3 * PAGE_BYTES))
    wait()
    gathering.add(begin('last'), piece(2 * PAGE_BYTES))
    expect(evicted).toEqual(['large'])
  })

  it('forgotten bodies keep no pages, whatever the order', () => {
    const { gathering, begin, wait } = crowd(64)
    const under: PartialBody[] = []
    for (let turn = 0; turn < 2000; turn++) {
      const body = begin(`${turn}`, turn % 3 === 0 ? null : (turn % 40) * 1000)
      gathering.add(body, piece(1 + ((turn * 7919) % 30_000)))
      under.push(body)
      if (turn % 5 === 0) wait()
      if (turn % 2 === 0) gathering.forget(under[(turn * 31) % under.length])
    }
    for (const body of under) gathering.forget(body)
    expect(gathering.usedBytes).toBe(0)
    for (let part = 0; part < 8; part++) gathering.add(begin(`all ${part}`), piece(8 * PAGE_BYTES))
    expect(gathering.usedBytes).toBe(64 * PAGE_BYTES)
  })

  it('bodies beyond 64 KB hold half of the pages at most, and give way among themselves', () => {
    const { gathering, evicted, begin, wait } = crowd(32, true)
    for (const name of ['large 1', 'large 2']) gathering.add(begin(name, 80_000), piece(50_000))
    expect(evicted).toEqual(['large 2'])
    // One that does not say its length is large when it has grown.
    const grown = begin('grown')
    gathering.add(grown, piece(60_000))
    gathering.add(grown, piece(10_000))
    expect(evicted).toEqual(['large 2', 'grown'])
    gathering.add(begin('small', 60_000), piece(50_000))
    wait()
    gathering.add(begin('large 3', 80_000), piece(50_000))
    expect(evicted).toEqual(['large 2', 'grown', 'large 1'])
  })

  it.each([
    [65_536, 8, 7 / 8],
    [32_768, 4, 15 / 16],
  ])('bodies of %i bytes, half sent and none of them slow, leave room for smaller ones', (bytes, pages, share) => {
    const { gathering, evicted, begin } = crowd(64, true)
    for (let turn = 0; turn < 20; turn++) gathering.add(begin(`${turn}`, bytes), piece(bytes / 2))
    expect(evicted).toHaveLength(20 - (share * 64) / pages)
    evicted.length = 0
    const left = (1 - share) * 64
    for (let turn = 0; turn < left; turn++) gathering.add(begin(`small ${turn}`), piece(PAGE_BYTES))
    expect(evicted).toEqual([])
    gathering.add(begin('one more'), piece(1))
    expect(evicted).toEqual(['one more'])
  })

  it('of bodies that left no room for smaller ones, slow ones of their size and beyond give way, and no smaller one', () => {
    const { gathering, evicted, begin, wait } = crowd(64, true)
    gathering.add(begin('small'), piece(PAGE_BYTES))
    for (let turn = 0; turn < 15; turn++) gathering.add(begin(`${turn}`, 32_768), piece(32_768))
    wait()
    gathering.add(begin('new', 32_768), piece(32_768))
    expect(evicted).toEqual(['0'])
  })

  it('one that brings no page for 100 ms reserves nothing, and is evicted whatever its rate was', () => {
    const { gathering, evicted, begin, wait } = crowd(8)
    gathering.add(begin('half', 6 * PAGE_BYTES), piece(4 * PAGE_BYTES))
    wait(101)
    gathering.add(begin('next'), piece(4 * PAGE_BYTES))
    expect(evicted).toEqual([])
    gathering.add(begin('last'), piece(PAGE_BYTES))
    expect(evicted).toEqual(['half'])
  })

  it('of the slow ones those that hold most are evicted first', () => {
    const { gathering, evicted, begin, wait } = crowd(8)
    gathering.add(begin('little'), piece(2 * PAGE_BYTES))
    gathering.add(begin('much'), piece(5 * PAGE_BYTES))
    wait()
    gathering.add(begin('new'), piece(2 * PAGE_BYTES))
    expect(evicted).toEqual(['much'])
  })
})
