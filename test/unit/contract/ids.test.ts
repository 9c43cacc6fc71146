import { randomBytes, randomFillSync, randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { NIL, v4, v5, v7, validate, version } from 'uuid'
import { describe, expect, it } from 'vitest'
import { batchIdOf, createFreshIds, isUuid } from '../../../src/contract/ids.ts'

const NAMESPACE = '736c7569-6365-4bc3-a976-656e74732e31'
const NOW_MS = Date.UTC(2026, 10, 20, 12)

const appIds = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/)

/** The time inside a UUIDv7. */
const timeOf = (id: string) => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

describe('batchIdOf', () => {
  it('is the UUIDv5 of app and key, as the uuid package makes it', () => {
    fc.assert(
      fc.property(appIds, fc.uuid(), (appId, key) => {
        expect(batchIdOf(appId, key)).toBe(v5(`${appId}:${key}`, NAMESPACE))
      }),
    )
  })

  it('stays the same for ever: a stored id is found again after an upgrade', () => {
    expect(batchIdOf('demo', '00000000-0000-0000-0000-000000000000')).toBe('b626cee3-329a-5f09-b610-1fe47e9b8303')
  })

  it('differs between two apps that use the same key', () => {
    const key = randomUUID()
    expect(batchIdOf('demo', key)).not.toBe(batchIdOf('demo2', key))
  })
})

describe('createFreshIds', () => {
  it('makes UUIDv7 that hold the time', () => {
    const freshId = createFreshIds(randomFillSync)
    for (const nowMs of [0, 1, NOW_MS, NOW_MS + 1, 0xffffffffffff]) {
      const id = freshId(nowMs)
      expect(validate(id)).toBe(true)
      expect(version(id)).toBe(7)
      expect(timeOf(id)).toBe(nowMs)
    }
  })

  it('makes the id that the uuid package makes of the same time, counter and random bytes', () => {
    const random = randomBytes(10)
    const id = createFreshIds((buffer) => buffer.set(random))(NOW_MS)
    const counter = ((random[8] << 8) | random[9]) & 0x7ff
    const bytes = new Uint8Array(16)
    bytes.set(random.subarray(1, 8), 9)
    bytes[8] = random[0]
    // The package takes the counter as 32 bits: 12 before the variant, then 20 that it takes bytes 8 to 10 from.
    const seq = ((counter << 20) | ((random[0] & 0x3f) << 14) | (random[1] << 6) | (random[2] >>> 2)) >>> 0
    bytes[10] = random[2]
    expect(id).toBe(v7({ msecs: NOW_MS, seq, random: bytes }))
  })

  it('makes ids in rising order, whatever the clock does', () => {
    const clockSteps = fc.array(fc.integer({ min: -5, max: 5 }), { minLength: 1, maxLength: 2000 })
    fc.assert(
      fc.property(clockSteps, (steps) => {
        const freshId = createFreshIds(randomFillSync)
        let nowMs = NOW_MS
        const ids = steps.map((step) => freshId((nowMs += step)))
        expect(ids).toEqual([...new Set(ids)].toSorted())
      }),
    )
  })

  it('runs ahead of the clock rather than repeat an id, when one millisecond asks for too many', () => {
    for (const fill of [0x00, 0xff]) {
      const freshId = createFreshIds((buffer) => buffer.fill(fill))
      const ids = Array.from({ length: 10_000 }, () => freshId(NOW_MS))
      expect(new Set(ids).size).toBe(ids.length)
      expect(ids).toEqual(ids.toSorted())
      expect(timeOf(ids.at(-1)!) - NOW_MS).toBeLessThanOrEqual(5)
    }
  })

  it('draws random bytes for many ids at once', () => {
    let draws = 0
    const freshId = createFreshIds((buffer) => {
      draws++
      randomFillSync(buffer)
    })
    const tails = new Set<string>()
    for (let index = 0; index < 8192; index++) tails.add(freshId(NOW_MS).slice(19))
    expect(draws).toBe(2)
    expect(tails.size).toBe(8192)
  })
})

describe('isUuid', () => {
  it('takes every version, the nil UUID, and any letter case', () => {
    for (const id of [
      NIL,
      v4(),
      v7(),
      v5('a', NAMESPACE),
      v4().toUpperCase(),
      'ffffffff-FFFF-ffff-ffff-ffffffffffff',
    ]) {
      expect([id, isUuid(id)]).toEqual([id, true])
    }
  })

  it('refuses what is not 8-4-4-4-12 hexadecimal digits', () => {
    const id = randomUUID()
    const others = ['', id.slice(1), `${id}0`, `{${id}}`, id.replaceAll('-', ''), ` ${id}`, `${id}\n`]
    others.push(`urn:uuid:${id}`, `g${id.slice(1)}`, id.replace('-', '0'), `-${id.slice(1)}`, `\u0660${id.slice(1)}`)
    for (const other of others) expect([other, isUuid(other)]).toEqual([other, false])
  })

  it('agrees with a slow reading of the form, character by character', () => {
    const characters = fc.constantFrom(...'0123456789abcdefABCDEFgG-'.split(''))
    const nearly = fc
      .tuple(fc.uuid(), fc.nat(35), characters)
      .map(([id, at, put]) => id.slice(0, at) + put + id.slice(at + 1))
    fc.assert(
      fc.property(nearly, (text) => {
        const fits = text
          .split('')
          .every((character, index) =>
            [8, 13, 18, 23].includes(index) ? character === '-' : '0123456789abcdefABCDEF'.includes(character),
          )
        expect(isUuid(text)).toBe(fits)
      }),
    )
  })
})
